import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readVolumeVersion } from '../../../lib/config/read.ts';
import { LastValidStore } from '../../../lib/state/last-valid.ts';
import { readLastValid } from '../../../lib/state/state-dir.ts';
import { removeLastValid, writeLastValid } from '../../../lib/state/write-state.ts';
import { capturedLog } from '../../lab/log.ts';
import { lastValid } from '../../lab/state-texts.ts';
import { IS_ROOT, NOBODY } from '../../lab/user.ts';

const NODE = 'node-1 8f1e';
const LIMIT = 2 ** 21;
const TEXTS = [
  { name: 'ip-masq-cloud', text: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' },
  { name: 'ip-masq-ops', text: 'masqLinkLocal: true\n' },
];

function temporary(): Disposable & { readonly dir: string } {
  const dir = fs.mkdtempSync(join(tmpdir(), 'state-'));
  return { dir, [Symbol.dispose]: () => fs.rmSync(dir, { recursive: true, force: true }) };
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
  const [data, version = '', ...others] = fs.readdirSync(state.dir).toSorted();
  assert.deepEqual([data, others], ['..data', []]);
  for (const name of fs.readdirSync(join(state.dir, version)))
    assert.equal(fs.statSync(join(state.dir, version, name)).mode & 0o777, 0o600);
  assert.equal(await removeLastValid(state.dir), true);
  assert.deepEqual(fs.readdirSync(state.dir), []);
  assert.equal(await removeLastValid(state.dir), false);
  assert.equal(await removeLastValid(join(state.dir, 'none')), false);
});

it('keeps the time since when a config is in use if only what stands beside it changes', async () => {
  using state = temporary();
  const before = lastValid(TEXTS);
  await writeLastValid(state.dir, NODE, before);
  const store = new LastValidStore(state.dir, NODE, LIMIT, capturedLog().log);
  assert.equal(await store.keep(TEXTS), true);
  assert.equal((await readLastValid(state.dir, NODE, LIMIT))?.since, before.since);
  await store.keep(TEXTS.slice(0, 1));
  assert.notEqual((await readLastValid(state.dir, NODE, LIMIT))?.since, before.since);
});

/** Where the last valid config is: the directory, the volume version in it, one of its texts, and its summary. */
type Places = Readonly<Record<'dir' | 'version' | 'text' | 'summary', string>>;

const HUGE = 100 * 2 ** 20;

/** What happens to it, and why it is not used then. */
const DAMAGES: Readonly<Record<string, readonly [damage: (places: Places) => void, message: RegExp]>> = {
  'another text': [({ text }) => fs.appendFileSync(text, '#'), /checksum/],
  'half a text': [({ text }) => fs.truncateSync(text, 9), /checksum/],
  'a text less': [({ text }) => fs.unlinkSync(text), /checksum/],
  'a text more': [({ version }) => fs.writeFileSync(`${version}/ip-masq-x`, ''), /checksum/],
  'a text beside it': [({ dir }) => fs.writeFileSync(`${dir}/ip-masq-x`, ''), /checksum/],
  'a text that is a link': [
    ({ dir, text }) => {
      fs.renameSync(text, join(dir, '..', 'elsewhere'));
      fs.symlinkSync('../../elsewhere', text);
    },
    /leads out/,
  ],
  'a text of 100 MiB': [({ text }) => fs.truncateSync(text, HUGE), /larger/],
  'no summary': [({ summary }) => fs.unlinkSync(summary), /not there/],
  'a pipe as a summary': [
    ({ summary }) => {
      fs.unlinkSync(summary);
      execFileSync('mkfifo', [summary]);
    },
    /not a regular file/,
  ],
  'a summary that is a link': [({ summary }) => linkAnew('/dev/zero', summary), /not a regular file/],
  'half a summary': [({ summary }) => fs.truncateSync(summary, 20), /damaged/],
  'a summary of 100 MiB': [({ summary }) => fs.truncateSync(summary, HUGE), /large/],
  'a summary of something else': [({ summary }) => fs.writeFileSync(summary, '[]'), /version/],
  'null as a summary': [({ summary }) => fs.writeFileSync(summary, 'null'), /version/],
  'another time': [
    ({ summary }) => {
      const text = fs.readFileSync(summary, 'utf8');
      fs.writeFileSync(summary, text.replace(/"since":"\d{4}/, '"since":"1999'));
    },
    /checksum/,
  ],
  'a link that leads out': [({ dir }) => linkAnew('/etc', join(dir, '..data')), /leads out/],
  'a link to nothing': [({ version }) => fs.rmSync(version, { recursive: true }), /no directory/],
  'others may write': [({ dir }) => fs.chmodSync(dir, 0o777), /other users/],
  ...(IS_ROOT && {
    'of another user': [({ dir }) => fs.chownSync(dir, NOBODY, NOBODY), /belongs to the user/],
  }),
};

function linkAnew(target: string, path: string): void {
  fs.unlinkSync(path);
  fs.symlinkSync(target, path);
}

describe('does not use what is not its own, or not whole', () => {
  for (const [name, [damage, message]] of Object.entries(DAMAGES))
    it(name, async () => {
      using outer = temporary();
      const dir = join(outer.dir, 'state');
      fs.mkdirSync(dir);
      await writeLastValid(dir, NODE, lastValid(TEXTS));
      const version = join(dir, fs.readlinkSync(join(dir, '..data')));
      damage({ dir, version, text: join(version, 'ip-masq-ops'), summary: join(version, 'state.json') });
      await assert.rejects(readLastValid(dir, NODE, LIMIT), message);
    });

  it('a link to a directory', async () => {
    using outer = temporary();
    const [dir, link] = [join(outer.dir, 'state'), join(outer.dir, 'link')];
    fs.mkdirSync(dir);
    await writeLastValid(dir, NODE, lastValid(TEXTS));
    fs.symlinkSync('state', link);
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
