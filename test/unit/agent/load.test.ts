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
