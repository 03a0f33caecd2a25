import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { VanishedFiles } from '../../../lib/agent/vanished.ts';
import { capturedLog } from '../../lab/log.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { OPTIONS } from '../config/support.ts';

const { log: LOG } = capturedLog();
const HOUR_MS = 3_600_000;

it('a vanished file that was first missed at a time to come, because the clock was set back, counts no longer than others', async () => {
  await using dir = await temporaryDirectory();
  writeFileSync(join(dir.path, 'ip-masq-a'), '{}\n');
  const last = ['ip-masq-a', 'ip-masq-b'].map((name) => ({ name, text: '{}\n' }));
  const missedAt = new Map([['ip-masq-b', Date.now() + 1_000 * HOUR_MS]]);
  const vanished = new VanishedFiles(HOUR_MS, missedAt, LOG);
  const reading = await vanished.load(dir.path, OPTIONS, undefined, last);
  assert.deepEqual(reading.configFiles, last);
  const [endsAt = Number.POSITIVE_INFINITY] = vanished.endsAt.values();
  assert.ok(endsAt <= Date.now() + HOUR_MS);
});

it('a file that is there again is as it is now, and is missed anew', async () => {
  await using dir = await temporaryDirectory();
  const path = join(dir.path, 'ip-masq-a');
  const last = [{ name: 'ip-masq-a', text: '{}\n' }];
  const vanished = new VanishedFiles(HOUR_MS, new Map([['ip-masq-a', Date.now() - HOUR_MS / 2]]), LOG);
  writeFileSync(path, 'masqLinkLocal: true\n');
  const there = await vanished.load(dir.path, OPTIONS, undefined, last);
  assert.deepEqual(there.configFiles, [{ name: 'ip-masq-a', text: 'masqLinkLocal: true\n' }]);
  assert.equal(vanished.missedAt.size, 0);
  rmSync(path);
  await vanished.load(dir.path, OPTIONS, there, there.configFiles);
  assert.ok(Math.abs((vanished.missedAt.get('ip-masq-a') ?? 0) - Date.now()) < HOUR_MS / 4);
});

it('a file that vanished beside an invalid one is not missed anew when its time is over', async () => {
  await using dir = await temporaryDirectory();
  const last = ['ip-masq-a', 'ip-masq-b'].map((name) => ({ name, text: '{}\n' }));
  const missedAt = new Map([['ip-masq-b', Date.now() - 2 * HOUR_MS]]);
  const vanished = new VanishedFiles(HOUR_MS, missedAt, LOG);
  const path = join(dir.path, 'ip-masq-a');
  writeFileSync(path, 'invalid\n');
  for (let time = 0; time < 2; time += 1) {
    const reading = await vanished.load(dir.path, OPTIONS, undefined, last);
    assert.deepEqual(reading.configFiles, [{ name: 'ip-masq-a', text: 'invalid\n' }]);
    assert.deepEqual(vanished.missedAt, missedAt);
  }
  writeFileSync(path, '{}\n');
  assert.deepEqual((await vanished.load(dir.path, OPTIONS, undefined, last)).configFiles, last.slice(0, 1));
  assert.equal(vanished.missedAt.size, 0);
});
