import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { pino } from 'pino';
import { readVolumeVersion } from '../../../lib/config/read.ts';
import { LastValidStore } from '../../../lib/state/last-valid.ts';
import { readLastValid } from '../../../lib/state/state-dir.ts';
import { removeLastValid, writeLastValid } from '../../../lib/state/write-state.ts';
import { lastValid } from '../../lab/state-texts.ts';
import { IS_ROOT, NOBODY } from '../../lab/user.ts';

const NODE = 'node-1 8f1e';
const LIMIT = 2 ** 21;
const TEXTS = [
  { name: 'ip-masq-cloud', text: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' },
  { name: 'ip-masq-ops', text: 'masqLinkLocal: true\n' },
];

function temporary(): Disposable & { readonly dir: string } {
  const dir = mkdtempSync(join(tmpdir(), 'state-'));
  return { dir, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) };
}

it('keeps the last texts only, for nobody else to read, and a command reads them as a volume', async () => {
  using state = temporary();
  assert.equal(await readLastValid(join(state.dir, 'none'), NODE, LIMIT), undefined);
  assert.equal(await readLastValid(state.dir, NODE, LIMIT), undefined);
  await writeLastValid(state.dir, NODE, lastValid([]));
  assert.deepEqual((await readLastValid(state.dir, NODE, LIMIT))?.configFiles, []);
  await writeLastValid(state.dir, NODE, lastValid(TEXTS));
  assert.deepEqual((await readLastValid(state.dir, NODE, LIMIT))?.configFiles, TEXTS);
  assert.deepEqual((await readVolumeVersion(state.dir, true)).configFiles, TEXTS);
  const [data, version = '', ...others] = readdirSync(state.dir).toSorted();
  assert.deepEqual([data, others], ['..data', []]);
  for (const name of readdirSync(join(state.dir, version)))
    assert.equal(statSync(join(state.dir, version, name)).mode & 0o777, 0o600);
  assert.equal(await removeLastValid(state.dir), true);
  assert.deepEqual(readdirSync(state.dir), []);
  assert.equal(await removeLastValid(state.dir), false);
  assert.equal(await removeLastValid(join(state.dir, 'none')), false);
});

it('keeps the time since when a config is in use if only what stands beside it changes', async () => {
  using state = temporary();
  const before = lastValid(TEXTS);
  await writeLastValid(state.dir, NODE, before);
  const store = new LastValidStore(state.dir, NODE, LIMIT, pino({ level: 'silent' }));
  const missedAt = new Map([['ip-masq-ops', 1_000]]);
  assert.equal(await store.keep(TEXTS, missedAt, [{ name: 'boot', text: 'rules' }]), true);
  assert.partialDeepStrictEqual(await readLastValid(state.dir, NODE, LIMIT), {
    since: before.since,
    missedAt,
  });
  await store.keep(TEXTS.slice(0, 1), new Map(), []);
  assert.notEqual((await readLastValid(state.dir, NODE, LIMIT))?.since, before.since);
});

describe('does not use what is not its own, or not whole', () => {
  const cases: Readonly<Record<string, readonly [(dir: string, version: string) => void, RegExp]>> = {
    'another text': [(_, version) => appendFileSync(join(version, 'ip-masq-ops'), '#'), /checksum/],
    'half a text': [(_, version) => truncateSync(join(version, 'ip-masq-cloud'), 9), /checksum/],
    'a text less': [(_, version) => unlinkSync(join(version, 'ip-masq-ops')), /checksum/],
    'a text more': [(_, version) => writeFileSync(join(version, 'ip-masq-x'), ''), /checksum/],
    'a text beside it': [(dir) => writeFileSync(join(dir, 'ip-masq-x'), ''), /checksum/],
    'a text that is a link': [
      (dir, version) => {
        renameSync(join(version, 'ip-masq-ops'), join(dir, '..', 'elsewhere'));
        symlinkSync('../../elsewhere', join(version, 'ip-masq-ops'));
      },
      /leads out/,
    ],
    'a text of 100 MiB': [
      (_, version) => truncateSync(join(version, 'ip-masq-ops'), 100 * 2 ** 20),
      /larger/,
    ],
    'no summary': [(_, version) => unlinkSync(join(version, 'state.json')), /not there/],
    'a pipe as a summary': [
      (_, version) => {
        unlinkSync(join(version, 'state.json'));
        execFileSync('mkfifo', [join(version, 'state.json')]);
      },
      /not a regular file/,
    ],
    'a summary that is a link': [
      (_, version) => {
        unlinkSync(join(version, 'state.json'));
        symlinkSync('/dev/zero', join(version, 'state.json'));
      },
      /not a regular file/,
    ],
    'half a summary': [(_, version) => truncateSync(join(version, 'state.json'), 20), /damaged/],
    'a summary of 100 MiB': [
      (_, version) => truncateSync(join(version, 'state.json'), 100 * 2 ** 20),
      /large/,
    ],
    'a summary of something else': [
      (_, version) => writeFileSync(join(version, 'state.json'), '[]'),
      /version/,
    ],
    'null as a summary': [(_, version) => writeFileSync(join(version, 'state.json'), 'null'), /version/],
    'another time': [
      (_, version) => {
        const path = join(version, 'state.json');
        writeFileSync(path, readFileSync(path, 'utf8').replace(/"since":"\d{4}/, '"since":"1999'));
      },
      /checksum/,
    ],
    'a link that leads out': [
      (dir) => {
        unlinkSync(join(dir, '..data'));
        symlinkSync('/etc', join(dir, '..data'));
      },
      /leads out/,
    ],
    'a link to nothing': [(_, version) => rmSync(version, { recursive: true }), /no directory/],
    'others may write': [(dir) => chmodSync(dir, 0o777), /other users/],
    ...(IS_ROOT && { 'of another user': [(dir) => chownSync(dir, NOBODY, NOBODY), /belongs to the user/] }),
  };
  for (const [name, [damage, message]] of Object.entries(cases))
    it(name, async () => {
      using outer = temporary();
      const dir = join(outer.dir, 'state');
      mkdirSync(dir);
      await writeLastValid(dir, NODE, lastValid(TEXTS));
      damage(dir, join(dir, readlinkSync(join(dir, '..data'))));
      await assert.rejects(readLastValid(dir, NODE, LIMIT), message);
    });

  it('a link to a directory', async () => {
    using outer = temporary();
    const [dir, link] = [join(outer.dir, 'state'), join(outer.dir, 'link')];
    mkdirSync(dir);
    await writeLastValid(dir, NODE, lastValid(TEXTS));
    symlinkSync('state', link);
    await assert.rejects(readLastValid(link, NODE, LIMIT), /not a directory/);
    await assert.rejects(writeLastValid(link, NODE, lastValid(TEXTS)), /not a directory/);
  });

  it('that of another node, as on a cloned disk', async () => {
    using state = temporary();
    await writeLastValid(state.dir, NODE, lastValid(TEXTS));
    await assert.rejects(readLastValid(state.dir, 'node-2 8f1e', LIMIT), /another node/);
  });

  it('more bytes than the config may have', async () => {
    using state = temporary();
    await writeLastValid(state.dir, NODE, lastValid(TEXTS));
    await assert.rejects(readLastValid(state.dir, NODE, 40), /larger than 40 bytes/);
  });
});
