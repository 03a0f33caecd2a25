import { type RunResult, run, succeed } from '../../lab/run.ts';
import type { Cluster } from './cluster.ts';
import { processesOf } from './probe/processes.ts';
import type { ProbedNode } from './probes.ts';
import { until } from './wait.ts';

/** The ways to a node itself, past Kubernetes. */
export interface NodeAccess {
  /** Runs a program in the node's network, with all rights. */
  run(file: string, args: readonly string[], input?: string): Promise<RunResult>;
  /** The output of such a program, which must succeed. */
  must(file: string, ...args: readonly string[]): Promise<string>;
  /** Kills the first process of a container, and with it the container. */
  kill(containerID: string): Promise<void>;
  /** All rules of the agent, as the tools of both dataplanes list them; empty if there is none. */
  ownRules(): Promise<string>;
}

const ENV = { PATH: `${process.env['PATH']}:/usr/local/sbin:/usr/sbin:/sbin`, LC_ALL: 'C' };

/** A node on this machine is reached without kubelet; any other through its privileged pod. */
export function accessTo({ localNodes }: Cluster, { name, host }: ProbedNode): NodeAccess {
  const local = localNodes.find((node) => node.name === name);
  const access: Pick<NodeAccess, 'run'> & { readonly signal: (container: string) => Promise<RunResult> } =
    local === undefined
      ? {
          run: (file, args, input = '') => host.ask('run', { file, args, input }),
          signal: async (container) => {
            const { 0: pid } = await host.ask('processes', { container });
            return await host.ask('run', {
              file: 'node',
              args: ['-e', `process.kill(${pid}, 'SIGKILL')`],
              input: '',
            });
          },
        }
      : {
          run: (file, args, input = '') => run(intoNode(local.pid, file, args), ENV, { input }),
          signal: async (container) => {
            const { 0: pid } = await processesOf(container);
            return await run({ file: 'kill', args: ['-KILL', `${pid}`] }, ENV);
          },
        };
  const must: NodeAccess['must'] = (file, ...args) => succeed(access.run(file, args));
  return {
    run: access.run,
    must,
    kill: async (containerID) => {
      await succeed(access.signal(containerID.replace(/^.*:\/\//, '')));
    },
    ownRules: () => ownRules(access.run, must),
  };
}

function intoNode(pid: number, file: string, args: readonly string[]) {
  const namespaces = ['--net', '--mount', '--pid', '--uts', '--ipc'];
  return { file: 'nsenter', args: ['--target', `${pid}`, ...namespaces, file, ...args] };
}

/** Without a table among their arguments: the legacy ones would make it in the kernel, and then agents look into it. */
const SAVE = ['iptables-nft-save', 'ip6tables-nft-save', 'iptables-legacy-save', 'ip6tables-legacy-save'];

async function ownRules(runThere: NodeAccess['run'], must: NodeAccess['must']): Promise<string> {
  const saved = await Promise.all(SAVE.map((file) => must(file)));
  const chains = saved
    .flatMap((text) => text.split('\n'))
    .filter((line) => /ip-masq-agent: |IP-MASQ/.test(line));
  const tables = await Promise.all(
    ['ip', 'ip6'].map((family) => runThere('nft', ['--stateless', 'list', 'table', family, 'ip-masq-agent'])),
  );
  return [...chains, ...tables.map(({ stdout }) => stdout)].filter((text) => text !== '').join('\n');
}

/** All rules of the agent, when those of the other dataplane are gone: they are removed beside the loop. */
export async function settledRules({ name, ownRules }: ProbedNode & NodeAccess): Promise<string> {
  return await until(`rules of one dataplane on ${name}`, ownRules, (rules) => {
    return /^-A IP-MASQ-AGENT /m.test(rules) !== /^table /m.test(rules);
  });
}
