import assert from 'node:assert/strict';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { type Trigger, Triggers } from '../../../lib/agent/triggers.ts';
import { capturedLog } from '../../lab/log.ts';
import { ProjectedVolume, temporaryDirectory } from '../../lab/volume.ts';

const LONG = 1_000_000;

interface Watched extends Disposable {
  readonly triggers: Triggers;
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  readonly iterator: AsyncGenerator<Trigger, void>;
  /** The reason of the next trigger; undefined after the last one. */
  next(): Promise<Trigger['reason'] | undefined>;
}

/** Triggers of a directory, of which the first one, the start, has been taken. */
async function watch(dir: string, interval = LONG): Promise<Watched & { readonly stop: AbortController }> {
  const stop = new AbortController();
  const { log, lines } = capturedLog();
  const triggers = new Triggers(dir, interval, log, stop.signal);
  const iterator = triggers[Symbol.asyncIterator]();
  const trigger = async () => (await iterator.next()).value ?? undefined;
  const next = async () => (await trigger())?.reason;
  assert.equal(await next(), 'start');
  return { triggers, iterator, lines, next, stop, [Symbol.dispose]: () => stop.abort() };
}

function isPending(promise: Promise<unknown>): Promise<boolean> {
  return Promise.race([promise.then(() => false), immediate(true)]);
}

describe('triggers', () => {
  it('make one of all events that come while nobody waits: the first', async () => {
    await using dir = await temporaryDirectory();
    using watched = await watch(dir.path);
    watched.triggers.add('signal');
    for (let event = 0; event < 100; event += 1) watched.triggers.add('change');
    assert.equal(await watched.next(), 'signal');
    watched.triggers.interval = 1;
    assert.equal(await watched.next(), 'resync');
  });

  it('that concern the node alone give way to those that also read the config files', async () => {
    await using dir = await temporaryDirectory();
    using watched = await watch(dir.path);
    for (const reason of ['change', 'signal'] as const) {
      watched.triggers.add('addresses');
      watched.triggers.add(reason);
      watched.triggers.add('addresses');
      assert.equal(await watched.next(), reason);
    }
  });

  it('come when a change of the kernel is due, and do not put off the resync', async ({ mock }) => {
    await using dir = await temporaryDirectory();
    const now = mock.method(performance, 'now', () => 0);
    using watched = await watch(dir.path, 1_000);
    mock.timers.enable({ apis: ['setTimeout'] });
    const pass = async (ms: number) => {
      const at = performance.now() + ms;
      now.mock.mockImplementation(() => at);
      await immediate();
      mock.timers.tick(ms);
      await immediate();
    };
    for (const id of [1, 2]) {
      watched.triggers.kernel.onSync({ duration: 40, inSync: true, generations: new Map() });
      const next = watched.next();
      await pass(0);
      const touched = [{ family: 'IPv4', table: 'nat', kind: 'rules' } as const];
      watched.triggers.addChanges({ items: [{ id, process: 'nft', port: 1, touched }], lost: false });
      await pass(399);
      assert.ok(await isPending(next), `generation ${id}`);
      await pass(1);
      assert.equal(await next, 'kernel');
    }
    const next = watched.next();
    await pass(199);
    assert.ok(await isPending(next));
    await pass(1);
    assert.equal(await next, 'resync');
  });

  it('end with the signal, before or while somebody waits, whatever is pending', async () => {
    await using dir = await temporaryDirectory();
    using waiting = await watch(dir.path);
    const next = waiting.next();
    waiting.stop.abort();
    assert.equal(await next, undefined);
    using pending = await watch(dir.path);
    pending.triggers.add('change');
    pending.stop.abort();
    assert.equal(await pending.next(), undefined);
  });

  it('see a swap of ..data once, whatever else kubelet does around it', async () => {
    await using dir = await temporaryDirectory();
    const volume = await ProjectedVolume.create(dir.path, { 'ip-masq-a': '' });
    using watched = await watch(dir.path);
    const next = watched.next();
    await volume.swap({ 'ip-masq-b': '' });
    assert.equal(await next, 'change');
    watched.triggers.interval = 150;
    assert.equal(await watched.next(), 'resync');
  });

  it('tell of config files of a plain directory, of several at once one time, and ignore other files', async () => {
    await using dir = await temporaryDirectory();
    using watched = await watch(dir.path);
    await writeFile(join(dir.path, 'other'), 'x');
    watched.triggers.interval = 150;
    assert.equal(await watched.next(), 'resync');
    watched.triggers.interval = LONG;
    const next = watched.next();
    await Promise.all(['ip-masq-a', 'ip-masq-b'].map((name) => writeFile(join(dir.path, name), 'x')));
    assert.equal(await next, 'change');
    watched.triggers.interval = 150;
    assert.equal(await watched.next(), 'resync');
  });

  it('watch the directory that a link leads to now, from the next reading on', {
    timeout: 10_000,
  }, async () => {
    await using dir = await temporaryDirectory();
    const [link, old, other] = ['link', 'old', 'new'].map((name) => join(dir.path, name)) as [
      string,
      string,
      string,
    ];
    for (const one of [old, other]) await mkdir(one);
    await symlink(old, link);
    using watched = await watch(link);
    await symlink(other, `${link}.tmp`);
    await rename(`${link}.tmp`, link);
    watched.triggers.add('signal');
    assert.equal(await watched.next(), 'signal');
    const next = watched.next();
    await writeFile(join(other, 'ip-masq-a'), '');
    assert.equal(await next, 'change');
  });

  it('see that the directory itself goes away', async () => {
    await using dir = await temporaryDirectory();
    using watched = await watch(dir.path);
    const next = watched.next();
    await rm(dir.path, { recursive: true });
    assert.equal(await next, 'change');
  });

  for (const end of ['', '/', '//', '/.', '/.//./'])
    it(`watch the directory "config${end}" again after it was replaced`, { timeout: 10_000 }, async () => {
      await using dir = await temporaryDirectory();
      const config = join(dir.path, 'config');
      await mkdir(config);
      using watched = await watch(`${config}${end}`);
      let next = watched.next();
      await rename(config, `${config}.old`);
      assert.equal(await next, 'change');
      await mkdir(config);
      watched.triggers.add('signal');
      assert.equal(await watched.next(), 'signal');
      next = watched.next();
      await writeFile(join(config, 'ip-masq-a'), '');
      assert.equal(await next, 'change');
    });

  it('go on without a watch if there can be none, and say so once', async () => {
    using watched = await watch('/nonexistent', 1);
    assert.equal(await watched.next(), 'resync');
    const warnings = watched.lines.map(({ msg }) => `${msg}`);
    assert.match(warnings.join(), /cannot watch the config directory/);
    assert.doesNotMatch(warnings.join(), /inotify/);
    assert.equal(warnings.length, 1);
  });
});
