import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { KeptConfigFile, removeKeptConfig } from '../../../lib/agent/kept-config.ts';
import type { ConfigFile } from '../../../lib/config/config-file.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { capturedLog } from '../../lab/log.ts';
import { IS_ROOT, NOBODY } from '../../lab/user.ts';

const OLD = [{ name: 'ip-masq-a', text: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' }];
const NEW = [{ name: 'ip-masq-a', text: 'masqLinkLocal: true\n' }];
const HUGE = 100 * 2 ** 20;

/** The directory of a state, in a directory of its own. */
function temporary() {
  const outer = fs.mkdtempSync(join(tmpdir(), 'state-'));
  const dir = join(outer, 'state');
  fs.mkdirSync(dir);
  const path = join(dir, 'last-valid.json');
  return { dir, path, [Symbol.dispose]: () => fs.rmSync(outer, { recursive: true, force: true }) };
}

/** Whether the config is kept then, and what is said. */
async function keep(dir: string, ...configs: (readonly ConfigFile[])[]) {
  const { log, lines } = capturedLog();
  const kept: boolean[] = [];
  const file = new KeptConfigFile(dir, new Notices(log));
  for (const config of configs) kept.push(await file.keep(config));
  return { kept, said: lines.map(({ msg }) => `${msg}`).join('\n') };
}

async function read(dir: string) {
  const { log, lines } = capturedLog();
  const found = await new KeptConfigFile(dir, new Notices(log)).read();
  return { configFiles: found?.configFiles, said: lines.map(({ msg }) => `${msg}`).join('\n') };
}

it('keeps the last config only, for nobody else to read, and removes nothing else', async () => {
  using state = temporary();
  assert.deepEqual(await read(join(state.dir, 'none')), { configFiles: undefined, said: '' });
  assert.deepEqual(await read(state.dir), { configFiles: undefined, said: '' });
  const two = [...NEW, { name: 'ip-masq-b', text: '# \u00e9 \u{1f600} "\\\n' }];
  assert.deepEqual(await keep(state.dir, [], OLD, OLD, two), { kept: [true, true, true, true], said: '' });
  assert.deepEqual((await read(state.dir)).configFiles, two);
  assert.deepEqual(fs.readdirSync(state.dir), ['last-valid.json']);
  assert.equal(fs.statSync(state.path).mode & 0o777, 0o600);
  fs.writeFileSync(join(state.dir, 'note'), '');
  assert.match(`${await removeKeptConfig(state.dir)}`, /^removed the last valid config from /);
  assert.deepEqual(fs.readdirSync(state.dir), ['note']);
  assert.equal(await removeKeptConfig(state.dir), undefined);
});

/** What happens to the file or its directory, and why it is not used then. */
const DAMAGES: Readonly<Record<string, readonly [damage: (path: string) => void, message: RegExp]>> = {
  'half a file': [(path) => fs.truncateSync(path, 60), /is damaged/],
  null: [(path) => fs.writeFileSync(path, 'null'), /is damaged/],
  'no data': [(path) => fs.writeFileSync(path, '{"data":null}'), /is damaged/],
  'a number': [(path) => fs.writeFileSync(path, '{"data":{"ip-masq-a":1}}'), /is damaged/],
  'another name': [(path) => fs.writeFileSync(path, '{"data":{"a":""}}'), /is damaged/],
  'a NUL': [(path) => fs.writeFileSync(path, '{"data":{"ip-masq-a":"\\u0000"}}'), /is damaged/],
  'a text above 1 MiB': [
    (path) => fs.writeFileSync(path, JSON.stringify({ data: { 'ip-masq-a': '#'.repeat(2 ** 20 + 1) } })),
    /is damaged/,
  ],
  '100 MiB': [(path) => fs.truncateSync(path, HUGE), /is larger than/],
  'a pipe': [(path) => replace(path, () => execFileSync('mkfifo', [path])), /not a regular file/],
  'a directory': [(path) => replace(path, () => fs.mkdirSync(path)), /not a regular file/],
  'a link': [
    (path) => {
      fs.renameSync(path, `${path}.old`);
      fs.symlinkSync(`${path}.old`, path);
    },
    /ELOOP/,
  ],
  'others may write to it': [(path) => fs.chmodSync(path, 0o666), /other users/],
  'others may write to the directory': [(path) => fs.chmodSync(join(path, '..'), 0o777), /other users/],
  'a link to the directory': [
    (path) => {
      const dir = join(path, '..');
      fs.renameSync(dir, `${dir}.old`);
      fs.symlinkSync(`${dir}.old`, dir);
    },
    /not a directory/,
  ],
  ...(IS_ROOT && {
    'of another user': [(path: string) => fs.chownSync(path, NOBODY, NOBODY), /belongs to the user/],
  }),
};

function replace(path: string, make: () => void): void {
  fs.unlinkSync(path);
  make();
}

describe('does not use what is not its own, or not whole', () => {
  for (const [name, [damage, message]] of Object.entries(DAMAGES))
    it(name, async () => {
      using state = temporary();
      await keep(state.dir, OLD);
      damage(state.path);
      const { configFiles, said } = await read(state.dir);
      assert.equal(configFiles, undefined);
      assert.match(said, /^cannot use the last valid config in /);
      assert.match(said, message);
    });
});

describe('the old config stays, whole, and the next writing succeeds, if', () => {
  const failsWith =
    (times: number) =>
    async ({ mock }: Context) => {
      await using file = await open('/dev/null');
      const handle = Object.getPrototypeOf(file);
      const sync = handle.sync;
      let left = times;
      mock.method(handle, 'sync', function (this: unknown, ...args: unknown[]) {
        left -= 1;
        if (left === 0) throw Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' });
        return sync.apply(this, args);
      });
    };
  type Context = { readonly mock: typeof import('node:test').mock };
  const newFile = (dir: string) => join(dir, 'last-valid.json.new');
  for (const [what, fault, mend, stored] of [
    ['the new file cannot be made', (_: Context, dir: string) => fs.mkdirSync(newFile(dir)), 'rmdir', OLD],
    ['the new file cannot be synced', failsWith(1), '', OLD],
    // It is there, but a power cut could take it back.
    ['the directory cannot be synced', failsWith(2), '', NEW],
  ] as const)
    it(what, async (t) => {
      using state = temporary();
      await keep(state.dir, OLD);
      await fault(t, state.dir);
      const { kept, said } = await keep(state.dir, NEW);
      assert.deepEqual(kept, [false]);
      assert.match(
        said,
        /^cannot write the last valid config to .*; correct this, because an agent that restarts while the config/,
      );
      assert.deepEqual((await read(state.dir)).configFiles, stored);
      t.mock.restoreAll();
      if (mend === 'rmdir') fs.rmdirSync(newFile(state.dir));
      assert.deepEqual((await keep(state.dir, NEW)).kept, [true]);
      assert.deepEqual(fs.readdirSync(state.dir), ['last-valid.json']);
    });

  it('it cannot be renamed: what is there is told, and the same config is written later', async () => {
    using state = temporary();
    fs.mkdirSync(state.path);
    const { log, lines } = capturedLog();
    const file = new KeptConfigFile(state.dir, new Notices(log));
    assert.equal(await file.keep(NEW), false);
    assert.deepEqual(fs.readdirSync(state.dir), ['last-valid.json']);
    assert.match(`${lines[0]?.['msg']}`, /EISDIR/);
    fs.rmdirSync(state.path);
    assert.equal(await file.keep(NEW), true);
  });

  it('it is larger than what is read', async () => {
    using state = temporary();
    const large = ['a', 'b'].map((name) => ({ name: `ip-masq-${name}`, text: '\n'.repeat(2 ** 20) }));
    assert.deepEqual((await keep(state.dir, OLD, large, NEW)).kept, [true, false, true]);
  });
});

it('the old config is there or the new one, whole, at whatever step of the writing the agent is killed', async () => {
  const script = fileURLToPath(new URL('../../lab/state-writer.ts', import.meta.url));
  const found: string[] = [];
  for (let step = 1, isKilled = true; isKilled; step += 1) {
    using state = temporary();
    isKilled = spawnSync(process.execPath, [script, state.dir, `${step}`]).signal === 'SIGKILL';
    const [{ text } = { text: 'none' }] = (await read(state.dir)).configFiles ?? [];
    found.push(text.length === 20_003 ? text.slice(2, 5) : text);
    assert.deepEqual((await keep(state.dir, NEW)).kept, [true]);
    assert.deepEqual(fs.readdirSync(state.dir), ['last-valid.json']);
  }
  // rm, open, write, sync, rename; open, sync of the directory; none.
  assert.deepEqual(found, ['old', 'old', 'old', 'old', 'old', 'new', 'new', 'new']);
});
