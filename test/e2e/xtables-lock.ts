import { eventually, type NodeLab } from './support.ts';

/** Holds the node's xtables lock until killed. */
export async function holdLock(node: NodeLab): Promise<{ kill(): void }> {
  const lock = node.box.env['XTABLES_LOCKFILE'] ?? '';
  const child = node.box.spawn('flock', [lock, 'cat'], { stdio: ['pipe', 'ignore', 'ignore'] });
  await eventually(
    async () => (await node.box.run('flock', ['--nonblock', lock, 'true'])).code !== 0,
    () => 'the lock to be held',
  );
  return { kill: () => child.stdin?.end() };
}
