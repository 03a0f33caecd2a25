import assert from 'node:assert/strict';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Reasons } from '../../../lib/agent/reasons.ts';
import { directoryWatch } from '../../../lib/agent/watch-directory.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { capturedLog } from '../../lab/log.ts';
import { ProjectedVolume, temporaryDirectory } from '../../lab/volume.ts';

const LONG = 1_000_000;

/** A watch of a directory, and the reasons that it adds. */
function watch(dir: string) {
  const stop = new AbortController();
  const { log, lines } = capturedLog();
  const reasons = new Reasons();
  const look = directoryWatch(dir, () => reasons.add('change'), new Notices(log), stop.signal);
  /** The next reason, as a loop gets it that reads for each; `resync` if there is none for so long. */
  const next = async (ms = LONG) => {
    const resyncAt = performance.now() + ms;
    const schedule = { resyncAt, pauseEndsAt: 0, outOfSyncAt: undefined, covered: new Map() };
    const trigger = await reasons.take(schedule, stop.signal);
    look();
    return trigger?.reason;
  };
  return { reasons, lines, next, [Symbol.dispose]: () => stop.abort() };
}

async function watched(dir: string) {
  const one = watch(dir);
  assert.equal(await one.next(), 'start');
  return one;
}

describe('the watch of the config directory', () => {
  it('sees a swap of ..data once, whatever else kubelet does around it', async () => {
    await using dir = await temporaryDirectory();
    const volume = await ProjectedVolume.create(dir.path, { 'ip-masq-a': '' });
    using own = await watched(dir.path);
    const next = own.next();
    await volume.swap({ 'ip-masq-b': '' });
    assert.equal(await next, 'change');
    assert.equal(await own.next(150), 'resync');
  });

  it('tells of config files of a plain directory, of several at once one time, and ignores other files', async () => {
    await using dir = await temporaryDirectory();
    using own = await watched(dir.path);
    await writeFile(join(dir.path, 'other'), 'x');
    assert.equal(await own.next(150), 'resync');
    const next = own.next();
    await Promise.all(['ip-masq-a', 'ip-masq-b'].map((name) => writeFile(join(dir.path, name), 'x')));
    assert.equal(await next, 'change');
    assert.equal(await own.next(150), 'resync');
  });

  it('sees that the directory itself goes away', async () => {
    await using dir = await temporaryDirectory();
    using own = await watched(dir.path);
    const next = own.next();
    await rm(dir.path, { recursive: true });
    assert.equal(await next, 'change');
  });

  for (const end of ['', '/', '//', '/.', '/.//./'])
    it(`watches the directory "config${end}" again after it was replaced`, async () => {
      await using dir = await temporaryDirectory();
      const config = join(dir.path, 'config');
      await mkdir(config);
      using own = await watched(`${config}${end}`);
      let next = own.next();
      await rename(config, `${config}.old`);
      assert.equal(await next, 'change');
      await mkdir(config);
      own.reasons.add('signal');
      assert.equal(await own.next(), 'signal');
      next = own.next();
      await writeFile(join(config, 'ip-masq-a'), '');
      assert.equal(await next, 'change');
    });

  it('is missing if there can be none, which is told once', async () => {
    using own = await watched('/nonexistent');
    assert.equal(await own.next(1), 'resync');
    const warnings = own.lines.map(({ msg }) => `${msg}`);
    assert.match(warnings.join(), /cannot watch the config directory/);
    assert.doesNotMatch(warnings.join(), /inotify/);
    assert.equal(warnings.length, 1);
  });
});
