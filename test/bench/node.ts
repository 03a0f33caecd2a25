import { type Box, createBox } from '../lab/box.ts';
import { COMMON, kubeProxyRules } from '../lab/kube-proxy.ts';
import { succeed } from '../lab/run.ts';

/** What a node has before the agent starts. */
export interface NodeKind {
  /** For the command line. */
  readonly name: string;
  readonly mode: 'nft' | 'legacy';
  /** In `nat`, in addition to the few rules that kube-proxy always has. */
  readonly foreignRules: number;
}

export interface BenchNode extends AsyncDisposable {
  readonly kind: NodeKind;
  readonly box: Box;
}

export const PLAIN_NODE: NodeKind = { name: 'nft', mode: 'nft', foreignRules: 0 };

/** 75,000 rules are those of 6,800 Services with three endpoints each. */
export const NODE_KINDS: readonly NodeKind[] = [
  PLAIN_NODE,
  { name: 'legacy', mode: 'legacy', foreignRules: 0 },
  { name: 'nft-75000', mode: 'nft', foreignRules: 75_000 },
  { name: 'legacy-75000', mode: 'legacy', foreignRules: 75_000 },
];

/** Services that go into the kernel in one transaction. */
const PER_PART = 2_000;
const LOAD_TIMEOUT_MS = 300_000;

/** iptables of the mode, for IPv4 and for IPv6. */
function toolsOf({ mode }: NodeKind): readonly string[] {
  return [`iptables-${mode}`, `ip6tables-${mode}`];
}

export function describeNode({ mode, foreignRules }: NodeKind): string {
  return `${mode} mode, ${foreignRules === 0 ? 'few' : foreignRules.toLocaleString('en')} foreign rules`;
}

/** Makes a node with the rules of kubelet and kube-proxy in the mode. */
export async function createNode(kind: NodeKind): Promise<BenchNode> {
  const box = await createBox();
  const [iptables = ''] = toolsOf(kind);
  // This chain tells the agent which mode kubelet uses.
  for (const tool of toolsOf(kind))
    await succeed(box.run(tool, ['-t', 'mangle', '-N', 'KUBE-IPTABLES-HINT']));
  const node = { kind, box, [Symbol.asyncDispose]: () => box[Symbol.asyncDispose]() };
  await resetNat(node);
  if (kind.foreignRules > 0)
    for (const part of kubeProxyRules(kind.foreignRules, PER_PART).slice(1))
      await restore(box, iptables, part, '--noflush');
  return node;
}

/** Puts `nat` of both families back to what it is without Services and without the agent. */
export async function resetNat({ kind, box }: BenchNode): Promise<void> {
  for (const tool of toolsOf(kind)) await restore(box, tool, COMMON);
}

async function restore(box: Box, tool: string, lines: readonly string[], ...options: readonly string[]) {
  const input = ['*nat', ...lines, 'COMMIT', ''].join('\n');
  await succeed(box.run(`${tool}-restore`, options, { input, timeoutMs: LOAD_TIMEOUT_MS }));
}
