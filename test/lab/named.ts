import { randomBytes } from 'node:crypto';
import { readdir, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { killAllIn } from './processes.ts';
import { type Environment, run, succeed } from './run.ts';

/** `ip netns` keeps its names there. */
const NAMES = '/var/run/netns';

/** Adds a network namespace with a name of its own, and removes those of tests that were killed. */
export async function addNamespace(env: Environment): Promise<string> {
  const prefix = await namePrefix();
  await removeStale(prefix, env);
  const name = `${prefix}${process.pid}-${randomBytes(4).toString('hex')}`;
  await succeed(run({ file: 'ip', args: ['netns', 'add', name] }, env));
  return name;
}

export async function deleteNamespace(name: string, env: Environment): Promise<void> {
  await succeed(run({ file: 'ip', args: ['netns', 'delete', name] }, env));
}

/** Process ids mean something in one pid namespace only, and several can share the directory of names. */
async function namePrefix(): Promise<string> {
  const inode = (await readlink('/proc/self/ns/pid')).replaceAll(/\D/g, '');
  return `ip-masq-${inode}-`;
}

/** A name outlives the process that made it, and keeps alive what a program left running in the background. */
async function removeStale(prefix: string, env: Environment): Promise<void> {
  const names = await readdir(NAMES).catch(() => []);
  const processes = new Set(await readdir('/proc'));
  for (const name of names) {
    const [pid = ''] = name.startsWith(prefix) ? name.slice(prefix.length).split('-') : [];
    if (pid === '' || processes.has(pid)) continue;
    const netns = await stat(join(NAMES, name)).catch(() => undefined);
    if (netns !== undefined) await killAllIn(`net:[${netns.ino}]`);
    // Another test may be removing the same one: how it ends is of no matter.
    await run({ file: 'ip', args: ['netns', 'delete', name] }, env);
  }
}
