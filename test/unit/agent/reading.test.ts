import assert from 'node:assert/strict';
import { readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { readConfig } from '../../../lib/agent/reading.ts';
import { type ConfigState, NO_CONFIG, resyncAt } from '../../../lib/agent/state.ts';
import { capturedLog } from '../../lab/log.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { OPTIONS } from '../config/support.ts';

const SAID = 'masqLinkLocal: true\n';

/** A directory of two config files that an agent has read, at an age at which it does not wait for them to be quiet. */
async function reading({ mock }: TestContext, graceMs = 10_000) {
  const dir = await temporaryDirectory();
  for (const name of ['ip-masq-a', 'ip-masq-b']) writeFileSync(join(dir.path, name), SAID);
  const { log, lines } = capturedLog();
  const loading = { configDir: dir.path, config: OPTIONS, resyncInterval: 60_000, graceMs };
  let ms = 0;
  mock.method(performance, 'now', () => ms);
  let state: ConfigState = await readConfig(loading, NO_CONFIG, log);
  return {
    untilNext: () => resyncAt(state, loading.resyncInterval) - state.readAt,
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
    write: (name: string, text: string) => writeFileSync(join(dir.path, name), text),
    remove: (name: string) => rmSync(join(dir.path, name)),
    wait: (time: number) => {
      ms += time;
    },
    /** The names of the config files that count; undefined if the reading has errors. */
    names: async () => {
      state = await readConfig(loading, state, log);
      return state.invalid === undefined ? state.reading?.configFiles.map(({ name }) => name) : undefined;
    },
    gone: () => [...state.vanished.keys()],
    messages: (word: RegExp) => lines.filter(({ msg }) => word.test(`${msg}`)).length,
  };
}

it('a file that vanishes keeps its last text for the grace, which is waited for from the last reading on', async (t) => {
  await using dir = await reading(t);
  dir.remove('ip-masq-b');
  assert.deepEqual([await dir.names(), dir.gone()], [['ip-masq-a', 'ip-masq-b'], ['ip-masq-b']]);
  dir.wait(4_000);
  assert.deepEqual([await dir.names(), dir.untilNext()], [['ip-masq-a', 'ip-masq-b'], 6_100]);
  dir.wait(1_000);
  assert.equal(dir.untilNext(), 6_100);
  dir.wait(5_000);
  assert.deepEqual([await dir.names(), dir.gone(), dir.untilNext()], [['ip-masq-a'], [], 60_000]);
  assert.equal(dir.messages(/ip-masq-b is gone; what it said applies until/), 1);
});

it('a file that is there again is as it is now, and is missed anew', async (t) => {
  await using dir = await reading(t);
  dir.remove('ip-masq-b');
  assert.deepEqual([await dir.names(), dir.gone()], [['ip-masq-a', 'ip-masq-b'], ['ip-masq-b']]);
  dir.wait(6_000);
  dir.write('ip-masq-b', 'masqLinkLocal: false\n');
  assert.deepEqual([await dir.names(), dir.gone()], [['ip-masq-a', 'ip-masq-b'], []]);
  assert.equal(dir.messages(/ip-masq-b is there again/), 1);
  dir.remove('ip-masq-b');
  await dir.names();
  dir.wait(6_000);
  assert.deepEqual([await dir.names(), dir.gone()], [['ip-masq-a', 'ip-masq-b'], ['ip-masq-b']]);
});

for (const text of ['{}\n', '', '# nothing\n'])
  it(`a file that contained only ${JSON.stringify(text)} leaves nothing behind`, async (t) => {
    await using dir = await reading(t);
    dir.write('ip-masq-b', text);
    await dir.names();
    dir.remove('ip-masq-b');
    assert.deepEqual([await dir.names(), dir.gone()], [['ip-masq-a'], []]);
    assert.equal(dir.messages(/gone/), 0);
  });

it('a file keeps its text while others are invalid, and no longer once they are valid after the grace', async (t) => {
  await using dir = await reading(t);
  dir.write('ip-masq-a', 'invalid\n');
  dir.remove('ip-masq-b');
  assert.equal(await dir.names(), undefined);
  dir.wait(20_000);
  assert.equal(await dir.names(), undefined);
  assert.equal(dir.messages(/ip-masq-b is gone/), 1);
  dir.write('ip-masq-a', SAID);
  assert.deepEqual([await dir.names(), dir.gone()], [['ip-masq-a'], []]);
});

it('without a grace a file is gone at once', async (t) => {
  await using dir = await reading(t, 0);
  dir.remove('ip-masq-b');
  assert.deepEqual([await dir.names(), dir.gone(), dir.messages(/gone since/)], [['ip-masq-a'], [], 1]);
});

for (const [what, begin] of [
  ['truncated', (path: string) => writeFileSync(path, '')],
  ['removed', (path: string) => rmSync(path)],
] as const)
  it(`a config file of a plain directory that is ${what} and written again is never read in between`, async (t) => {
    await using dir = await temporaryDirectory();
    const path = join(dir.path, 'ip-masq-a');
    const text = 'nonMasqueradeCIDRs: [10.0.0.0/8]\n';
    const loading = { configDir: dir.path, config: OPTIONS, resyncInterval: 1_000 };
    const { log } = capturedLog();
    writeFileSync(path, text);
    const before = await readConfig(loading, NO_CONFIG, log);
    // However busy the machine is, no time goes by in between.
    const now = Date.now();
    const clock = t.mock.method(Date, 'now', () => now);
    begin(path);
    for (const one of [dir.path, ...readdirSync(dir.path).map((name) => join(dir.path, name))])
      utimesSync(one, now / 1000, now / 1000);
    const reading = readConfig(loading, before, log);
    await delay(1);
    writeFileSync(path, text);
    clock.mock.restore();
    assert.equal((await reading).valid, before.valid);
  });

it('that the defaults apply is told as a warning: a volume may lack its ConfigMaps', async () => {
  await using dir = await temporaryDirectory();
  const { log, lines } = capturedLog();
  await readConfig({ configDir: dir.path, config: OPTIONS, resyncInterval: 1_000 }, NO_CONFIG, log);
  assert.match(`${lines[0]?.['level']} ${lines[0]?.['msg']}`, /^40 no config found.*look the same/);
});
