import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { createReader } from '../../../lib/agent/load.ts';
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
    const reader = createReader(loading, {}, observer, pino({ level: 'silent' }));
    writeFileSync(path, text);
    const before = await reader.read();
    begin(path);
    const reading = reader.read();
    await delay(1);
    writeFileSync(path, text);
    assert.equal(await reading, before);
  });
