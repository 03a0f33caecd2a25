import type { IptablesMode } from '../../lib/dataplane/options.ts';
import { type Box, createBox } from '../lab/box.ts';
import { COMMON, kubeProxyRules } from '../lab/kube-proxy.ts';
import { succeed } from '../lab/run.ts';

/** What a node has before the agent comes. */
export interface NodeKind {
  /** For the command line. */
  readonly name: string;
  readonly mode: IptablesMode;
  /** In `nat`; without any, there still are the few that kube-proxy always has. */
  readonly foreignRules: number;
}

export interface BenchNode extends AsyncDisposable {
  readonly kind: NodeKind;
  readonly box: Box;
}

/** Foreign rules of IPv4, as many as 6,800 Services of three endpoints make. */
const MANY = 75_000;

export const NODE_KINDS: readonly NodeKind[] = [
  { name: 'nft', mode: 'nft', foreignRules: 0 },
  { name: 'legacy', mode: 'legacy', foreignRules: 0 },
  { name: 'nft-75000', mode: 'nft', foreignRules: MANY },
  { name: 'legacy-75000', mode: 'legacy', foreignRules: MANY },
];

/** Services that go into the kernel in one transaction. */
const PER_PART = 2_000;
const LOAD_TIMEOUT_MS = 300_000;

/** In words. */
export function describeNode({ mode, foreignRules }: NodeKind): string {
  return `${mode} mode, ${foreignRules === 0 ? 'few' : foreignRules.toLocaleString('en')} foreign rules`;
}

/** Makes a node with kubelet's and kube-proxy's rules in the mode. */
export async function createNode(kind: NodeKind): Promise<BenchNode> {
  const box = await createBox();
  // From this chain the agent sees which mode kubelet uses.
  for (const tool of ['iptables', 'ip6tables'])
    await succeed(box.run(`${tool}-${kind.mode}`, ['-t', 'mangle', '-N', 'KUBE-IPTABLES-HINT']));
  const node = { kind, box, [Symbol.asyncDispose]: () => box[Symbol.asyncDispose]() };
  await resetNat(node);
  if (kind.foreignRules > 0)
    for (const part of kubeProxyRules(kind.foreignRules, PER_PART).slice(1))
      await restore(node, 'iptables', part, ['--noflush']);
  return node;
}

/** Puts `nat` of both families back to what it is without Services and without the agent. */
export async function resetNat(node: BenchNode): Promise<void> {
  for (const tool of ['iptables', 'ip6tables']) await restore(node, tool, COMMON, []);
}

/** Feeds lines of `nat` to the restore command of the node's mode. */
export async function restore(
  { kind, box }: BenchNode,
  tool: string,
  lines: readonly string[],
  options: readonly string[],
): Promise<void> {
  const input = ['*nat', ...lines, 'COMMIT', ''].join('\n');
  await succeed(box.run(`${tool}-${kind.mode}-restore`, options, { input, timeoutMs: LOAD_TIMEOUT_MS }));
}
