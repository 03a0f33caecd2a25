import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createReader } from '../../../lib/agent/load.ts';
import { capturedLog } from '../../lab/log.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { OPTIONS } from '../config/support.ts';

for (const [what, begin] of [
  ['truncated', (path: string) => writeFileSync(path, '')],
  ['removed', (path: string) => rmSync(path)],
] as const)
  it(`a config file of a plain directory that is ${what} and written again is never read in between`, async () => {
    await using dir = await temporaryDirectory();
    const path = join(dir.path, 'ip-masq-a');
    const text = 'nonMasqueradeCIDRs: [10.0.0.0/8]\n';
    const loading = { configDir: dir.path, config: OPTIONS, resyncInterval: 1_000 };
    const observer = { onLoad: () => {}, onInvalidConfig: assert.fail };
    const reader = createReader(loading, observer, capturedLog().log);
    writeFileSync(path, text);
    const before = await reader.read();
    begin(path);
    const reading = reader.read();
    await delay(1);
    writeFileSync(path, text);
    assert.equal(await reading, before);
  });

for (const [what, files, said] of [
  ['as a warning where a volume may lack its ConfigMaps', [], /^40 no config found.*look the same/],
  ['of a plain directory', ['other'], /^30 no config found, the defaults apply$/],
] as const)
  it(`that the defaults apply is told ${what}`, async () => {
    await using dir = await temporaryDirectory();
    for (const file of files) writeFileSync(join(dir.path, file), '');
    const { log, lines } = capturedLog();
    const loading = { configDir: dir.path, config: OPTIONS, resyncInterval: 1_000 };
    await createReader(loading, { onLoad: () => {}, onInvalidConfig: assert.fail }, log).read();
    assert.match(`${lines[0]?.['level']} ${lines[0]?.['msg']}`, said);
  });

it('the end of a grace is waited for from the last reading on, whenever that is asked for', async ({
  mock,
}) => {
  await using dir = await temporaryDirectory();
  mock.timers.enable({ apis: ['Date'], now: 1_000_000 });
  writeFileSync(join(dir.path, 'ip-masq-a'), '{}\n');
  const earlier = {
    configFiles: ['ip-masq-a', 'ip-masq-b'].map((name) => ({ name, text: '{}\n' })),
    since: '2026-01-02T03:04:05.678Z',
    missedAt: new Map([['ip-masq-b', Date.now() - 4_000]]),
  };
  const loading = { configDir: dir.path, config: OPTIONS, resyncInterval: 60_000 };
  const reading = { readLastValid: async () => earlier, graceMs: 10_000 };
  const observer = { onLoad: () => {}, onInvalidConfig: assert.fail };
  const reader = createReader({ ...loading, ...reading }, observer, capturedLog().log);
  await reader.read();
  assert.equal(reader.interval, 6_100);
  mock.timers.tick(5_000);
  assert.equal(reader.interval, 6_100);
  mock.timers.tick(5_000);
  await reader.read();
  assert.equal(reader.interval, 60_000);
});

it('a vanished file keeps its time if the last valid config is not valid with the flags of today', async () => {
  await using dir = await temporaryDirectory();
  const write = (name: string) => writeFileSync(join(dir.path, name), '{}\n');
  write('ip-masq-a');
  const earlier = {
    configFiles: ['ip-masq-a', 'ip-masq-b'].map((name) => ({ name, text: '{}\n' })),
    since: '2026-01-02T03:04:05.678Z',
    missedAt: new Map(),
  };
  const options = {
    configDir: dir.path,
    config: { ...OPTIONS, requiredFiles: ['ip-masq-c'] },
    resyncInterval: 60_000,
    keep: async () => 'nothing changes',
    readLastValid: async () => earlier,
    graceMs: 60_000,
  };
  const observer = { onLoad: () => {}, onInvalidConfig: () => {} };
  const reader = createReader(options, observer, capturedLog().log);
  assert.equal(await reader.read(), undefined);
  write('ip-masq-c');
  const names = (await reader.read())?.configFiles.map(({ name }) => name);
  assert.deepEqual(names, ['ip-masq-a', 'ip-masq-b', 'ip-masq-c']);
});
