import assert from 'node:assert/strict';
import { rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { watchDirectory } from '../../../lib/agent/watch.ts';
import { ProjectedVolume, temporaryDirectory } from '../../lab/volume.ts';

interface Watched extends Disposable {
  readonly changes: () => number;
  readonly lost: () => number;
  /** Waits for the next change. */
  changed(): Promise<void>;
}

function watchFor(dir: string, projected: boolean): Watched {
  const stop = new AbortController();
  const counts = { changes: 0, lost: 0 };
  let wake = () => {};
  const onChange = () => {
    counts.changes += 1;
    wake();
  };
  const onLost = () => {
    counts.lost += 1;
  };
  watchDirectory(dir, { onChange, onLost, isProjected: () => projected }, stop.signal);
  return {
    changes: () => counts.changes,
    lost: () => counts.lost,
    changed: () =>
      new Promise((resolve) => {
        wake = resolve;
      }),
    [Symbol.dispose]: () => stop.abort(),
  };
}

describe('the watch', () => {
  it('sees a swap of ..data once, whatever else kubelet does around it', async () => {
    await using dir = await temporaryDirectory();
    const volume = await ProjectedVolume.create(dir.path, { 'ip-masq-a': '' });
    using watched = watchFor(dir.path, true);
    const changed = watched.changed();
    await volume.swap({ 'ip-masq-b': '' });
    await changed;
    await delay(150);
    assert.equal(watched.changes(), 1);
  });

  it('waits until a file of a plain directory is quiet, and passes over other files', async ({ mock }) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    await using dir = await temporaryDirectory();
    using watched = watchFor(dir.path, false);
    const changed = watched.changed();
    for (let write = 0; write < 10; write += 1)
      await writeFile(join(dir.path, 'ip-masq-a'), 'x'.repeat(write));
    // It is told of at once, and behind all that came before.
    await symlink('anywhere', join(dir.path, '..data'));
    await changed;
    assert.equal(watched.changes(), 1);
    mock.timers.tick(99);
    assert.equal(watched.changes(), 1);
    mock.timers.tick(1);
    assert.equal(watched.changes(), 2);
    await writeFile(join(dir.path, 'other'), 'x');
    const changedAgain = watched.changed();
    await rm(join(dir.path, '..data'));
    await changedAgain;
    mock.timers.tick(10_000);
    assert.equal(watched.changes(), 3);
  });

  it('sees that the directory itself goes away', async () => {
    await using dir = await temporaryDirectory();
    using watched = watchFor(dir.path, false);
    const changed = watched.changed();
    await rm(dir.path, { recursive: true });
    await changed;
    assert.ok(watched.changes() >= 1);
  });

  it('says that it is lost where it cannot begin', () => {
    using watched = watchFor('/nonexistent', false);
    assert.deepEqual([watched.lost(), watched.changes()], [1, 0]);
  });
});
