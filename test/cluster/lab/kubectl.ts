import { type ChildProcess, spawn } from 'node:child_process';
import { type Environment, type RunResult, run } from '../../lab/run.ts';
import type { Cluster } from './cluster.ts';

/** kubectl with one KUBECONFIG, and one namespace unless an argument names another. */
export interface Kubectl {
  /** Runs it to its end, however it ends. */
  run(...args: readonly string[]): Promise<RunResult>;
  /**
   * The standard output of a run that succeeds.
   *
   * @throws {Error} with the arguments and what it wrote to its standard error
   */
  must(...args: readonly string[]): Promise<string>;
  /** The object, or the list, that `get` with these arguments finds. */
  get<Found>(...args: readonly string[]): Promise<Found>;
  /** Applies objects that are given as values. */
  apply(...objects: readonly object[]): Promise<void>;
  /** Starts it with pipes for standard input, output and error. */
  spawn(...args: readonly string[]): ChildProcess;
}

/** For commands that wait by themselves. */
const TIMEOUT_MS = 300_000;

export function kubectlFor(cluster: Cluster, namespace: string): Kubectl {
  const env: Environment = {
    PATH: process.env['PATH'] ?? '',
    HOME: process.env['HOME'] ?? '/nonexistent',
    KUBECONFIG: cluster.kubeconfig,
    // Where a local cluster wants what kubectl remembers of it.
    ...(process.env['KUBECACHEDIR'] && { KUBECACHEDIR: process.env['KUBECACHEDIR'] }),
  };
  const command = (args: readonly string[]) => ({
    file: cluster.kubectl,
    args: [`--namespace=${namespace}`, ...args],
  });
  const start = (args: readonly string[], input = '') =>
    run(command(args), env, { input, timeoutMs: TIMEOUT_MS });
  const must = async (args: readonly string[], input?: string) => {
    const { code, signal, stdout, stderr } = await start(args, input);
    if (code === 0) return stdout;
    throw new Error(`kubectl ${args.join(' ')} failed (${signal ?? code}): ${(stderr || stdout).trim()}`);
  };
  return {
    run: (...args) => start(args),
    must: (...args) => must(args),
    get: async (...args) => JSON.parse(await must(['get', '--output=json', ...args])),
    apply: async (...items) => {
      const list = { apiVersion: 'v1', kind: 'List', items };
      await must(['apply', '--filename=-'], JSON.stringify(list));
    },
    spawn: (...args) => {
      const { file, args: all } = command(args);
      return spawn(file, all, { env, stdio: 'pipe' });
    },
  };
}

/** A namespace with a label of the tests, in which privileged pods may run. */
export function namespaceFor(name: string, label: string): object {
  const labels = { [label]: 'true', 'pod-security.kubernetes.io/enforce': 'privileged' };
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
}
