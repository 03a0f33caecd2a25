/** What others do, as plain lists of tool calls, to compare the agent with. */
import { type Call, call } from './calls.ts';
import type { NodeKind } from './node.ts';
import { CHAIN, type Families, prefixesOf } from './sources.ts';

/** Its own, so that it can stand beside the agent's on one node. */
export const STAND_IN_CHAIN = 'STAND-IN';

const TOOLS = { IPv4: ['iptables'], both: ['iptables', 'ip6tables'] } as const;
const LINK_LOCAL = { iptables: '169.254.0.0/16', ip6tables: 'fe80::/10' } as const;

/** The agent's chain alone. */
export function listChain({ mode }: NodeKind): readonly Call[] {
  return [call(`iptables-${mode}`, '--wait', '1', '-t', 'nat', '-S', CHAIN)];
}

/** What no agent can do without that looks before it writes: the chain, and where the jump is, of each family. */
export function readChainAndJump({ mode }: NodeKind, families: Families): readonly Call[] {
  return TOOLS[families].flatMap((tool) =>
    [CHAIN, 'POSTROUTING'].map((chain) => call(`${tool}-${mode}`, '--wait', '1', '-t', 'nat', '-S', chain)),
  );
}

/**
 * What ip-masq-agent (v1) and ip-masq-agent-v2 do at every interval, of each family: `syncMasqRules`, and what
 * EnsureChain, EnsureRule and RestoreAll of k8s.io/kubernetes/pkg/util/iptables run for it.
 */
export function ensureAndRestore({ mode }: NodeKind, families: Families): readonly Call[] {
  const wait = ['-w', '5'];
  return TOOLS[families].flatMap((tool) => [
    call(`${tool}-${mode}`, ...wait, '-N', STAND_IN_CHAIN, '-t', 'nat'),
    call(`${tool}-${mode}`, ...wait, '-C', 'POSTROUTING', '-t', 'nat', ...JUMP),
    {
      command: [`${tool}-${mode}-restore`, ...wait, '--noflush'],
      input: chainText(tool),
    },
  ]);
}

/** What they do once: the check of the jump has found none. */
export function appendJump({ mode }: NodeKind, families: Families): readonly Call[] {
  return TOOLS[families].flatMap((tool) => [
    call(`${tool}-${mode}`, '-w', '5', '-N', STAND_IN_CHAIN, '-t', 'nat'),
    call(`${tool}-${mode}`, '-w', '5', '-A', 'POSTROUTING', '-t', 'nat', ...JUMP),
  ]);
}

const JUMP: readonly string[] = [
  ...['-m', 'comment', '--comment'],
  `"ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom ${STAND_IN_CHAIN} chain"`,
  ...['-m', 'addrtype', '!', '--dst-type', 'LOCAL', '-j', STAND_IN_CHAIN],
];

function chainText(tool: keyof typeof LINK_LOCAL): string {
  const inside = [LINK_LOCAL[tool], ...prefixesOf(0, tool === 'iptables' ? 'IPv4' : 'IPv6')];
  const comment = (text: string) => `-m comment --comment "ip-masq-agent: ${text}"`;
  return [
    '*nat',
    `:${STAND_IN_CHAIN} - [0:0]`,
    ...inside.map(
      (prefix) =>
        `-A ${STAND_IN_CHAIN} ${comment('local traffic is not subject to MASQUERADE')} -d ${prefix} -j RETURN`,
    ),
    `-A ${STAND_IN_CHAIN} ${comment('outbound traffic is subject to MASQUERADE (must be last in chain)')} -j MASQUERADE`,
    'COMMIT',
    '',
  ].join('\n');
}
