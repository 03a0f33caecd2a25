import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Environment } from '../../lab/run.ts';
import { until } from '../lab/wait.ts';
import { removeLeftovers } from './leftovers.ts';
import { type ClusterOptions, PROGRAMS, placesOf, type Report } from './options.ts';
import { livingOwner } from './owner.ts';
import { checkRequirements } from './requirements.ts';

/** A cluster on this machine. Disposing of it takes it down. */
export interface Cluster extends AsyncDisposable {
  /** What a scenario needs to know of it. */
  readonly env: Environment;
}

const SUPERVISOR = fileURLToPath(new URL('supervisor.ts', import.meta.url));

/** Brings up a cluster that ends with this process at the latest, also if that is killed. */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const supervisor = await supervise(options, 'held');
  const end = async (): Promise<void> => {
    const gone =
      supervisor.exitCode !== null || supervisor.signalCode !== null ? undefined : once(supervisor, 'exit');
    supervisor.stdin?.end();
    await gone;
  };
  return { env: environmentOf(options), [Symbol.asyncDispose]: end };
}

/** Brings up a cluster that stays until `stopCluster`. */
export async function leaveCluster(options: ClusterOptions): Promise<Environment> {
  const supervisor = await supervise(options, 'detached');
  supervisor.unref();
  supervisor.stdout?.destroy();
  return environmentOf(options);
}

/** Takes down the cluster of a directory, or removes what is left of one that was killed. */
export async function stopCluster(directory: string): Promise<void> {
  const { owner } = placesOf(directory);
  const pid = await livingOwner(owner);
  if (pid !== undefined) process.kill(pid, 'SIGTERM');
  await until(
    'the end of the cluster',
    () => livingOwner(owner),
    (living) => living === undefined,
  );
  await removeLeftovers(directory);
}

/** In a session of its own, so that Ctrl-C at a terminal reaches it through its caller only. */
async function supervise(options: ClusterOptions, mode: 'held' | 'detached'): Promise<ChildProcess> {
  checkRequirements();
  await mkdir(options.directory, { recursive: true });
  const log = openSync(join(options.directory, 'supervisor.log'), 'w', 0o600);
  const args = [SUPERVISOR, JSON.stringify(options), mode];
  const input = mode === 'held' ? 'pipe' : 'ignore';
  const child = spawn(process.execPath, args, { detached: true, stdio: [input, 'pipe', log] });
  closeSync(log);
  child.stdin?.on('error', () => {});
  const failure = await firstReport(child);
  if (failure === undefined) return child;
  throw new Error(`the cluster does not come up: ${failure}`);
}

async function firstReport(child: ChildProcess): Promise<string | undefined> {
  if (child.stdout === null) throw new Error('a supervisor has an output');
  for await (const line of createInterface({ input: child.stdout })) {
    const { failure }: Report = JSON.parse(line);
    return failure;
  }
  return 'its supervisor ended without a word; see supervisor.log in its directory';
}

function environmentOf({ directory, families, images, proxyMode }: ClusterOptions): Environment {
  const [image] = images;
  const { cache, kubeconfig } = placesOf(directory);
  return {
    KUBECONFIG: kubeconfig,
    KUBECACHEDIR: cache,
    KUBECTL: join(PROGRAMS, 'kubectl'),
    CLUSTER_LOCAL: directory,
    CLUSTER_PROXY_MODE: proxyMode,
    CLUSTER_FAMILIES: families,
    ...(image && { CLUSTER_IMAGE: image.name }),
  };
}
