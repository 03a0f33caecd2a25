import type { Netlink } from '../dataplane/netlink.ts';
import { NetlinkError } from '../netlink/error.ts';
import type { Expression } from '../netlink/expressions.ts';
import type { NatChain, RuleReply } from '../netlink/replies.ts';
import type { RuleKind } from './suspects.ts';

/** Rules that a rule of a base chain is, or leads to, as names of targets and expressions tell it. */
export interface Branch {
  /** How many rules of each kind. */
  readonly rules: Partial<Record<RuleKind, number>>;
  /** The chain that the rule leads to first; undefined if the rule itself does it. */
  readonly chain: string | undefined;
  /** Names and comments on the way. */
  readonly evidence: readonly string[];
  /** Whether the rule leads to the agent's own chain. */
  readonly isOwn: boolean;
}

/** What is read of all chains that one base chain leads to: foreign rules can be more than fit into memory. */
const [MOST_RULES, MOST_BYTES] = [5_000, 2 * 1024 * 1024];

/** What one rule says by names alone. */
interface Part {
  readonly kind: RuleKind | undefined;
  readonly isReturn: boolean;
  readonly targets: readonly string[];
  /** Its comments, and names of links in it. */
  readonly names: readonly string[];
}

/**
 * The branches of a base chain, one for each of its rules that decides or leads on, in order. No condition of a rule is read.
 *
 * @param ownChain the agent's own chain, if the base chain may lead to it
 * @throws {NetlinkError} also if there are too many rules
 */
export async function readBranches(
  netlink: Netlink,
  base: NatChain,
  ownChain: string | undefined,
): Promise<readonly Branch[]> {
  let left = MOST_RULES;
  const visited = new Set([base.chain]);
  const partsOf = async (chain: string): Promise<readonly Part[]> => {
    const name = { family: base.family, table: base.table, chain };
    const rules = await netlink.use((requests) => requests.rules(name, MOST_BYTES));
    left -= rules.length;
    if (left < 0) throw new NetlinkError('limit', `more than ${MOST_RULES} rules`);
    return rules
      .map((rule) => partOf(rule, base.isRaw))
      .filter(({ kind, isReturn, targets }) => kind !== undefined || isReturn || targets.length > 0);
  };
  /** Takes note of a rule and of all that it leads to. */
  const follow = async (first: Part, branch: Branch & { readonly evidence: string[] }): Promise<Branch> => {
    const waiting = [first];
    for (let part = waiting.pop(); part !== undefined; part = waiting.pop()) {
      if (part.kind !== undefined) branch.rules[part.kind] = (branch.rules[part.kind] ?? 0) + 1;
      branch.evidence.push(...part.names);
      for (const chain of part.targets.filter((target) => target !== ownChain)) {
        branch.evidence.push(chain);
        if (visited.has(chain)) continue;
        visited.add(chain);
        waiting.push(...(await partsOf(chain)));
      }
    }
    return branch;
  };
  const branches: Branch[] = [];
  for (const part of await partsOf(base.chain)) {
    const isOwn = ownChain !== undefined && part.targets.includes(ownChain);
    // At the top a return ends the chain for the packet, as an accept does.
    const first = part.isReturn && !base.isRaw ? ({ ...part, kind: 'accepts' } as const) : part;
    branches.push(await follow(first, { rules: {}, chain: part.targets[0], evidence: [], isOwn }));
  }
  return branches;
}

/** NF_ACCEPT and NFT_RETURN, and the register in which verdicts are, such as those of a map. */
const [ACCEPT, RETURN, VERDICT_REGISTER] = [1, -5, 0];
const NAT_SOURCE = 0;

function partOf({ expressions, comment }: RuleReply, isRaw: boolean): Part {
  const kinds = expressions.map(isRaw ? rawKind : natKind);
  const verdicts = expressions.flatMap((one) => (one.name === 'immediate' ? (one.verdict ?? []) : []));
  const said = expressions.flatMap((one) =>
    one.name === 'match' && one.extension === 'comment' ? textOf(one.info) : [],
  );
  const links = expressions.flatMap((one) => (one.name === 'cmp' ? linkName(one.value) : []));
  return {
    kind: kinds.find((kind) => kind !== undefined),
    isReturn: verdicts.some(({ code }) => code === RETURN),
    targets: verdicts.flatMap(({ chain }) => chain ?? []),
    names: [...(comment === undefined ? [] : [comment]), ...said, ...links],
  };
}

/** What is compared, if it looks like the name of a link, which programs give their bridges. */
function linkName(value = ''): readonly string[] {
  const name = textOf(value);
  return /^[a-z][\w.-]{2,14}$/.test(name) ? [name] : [];
}

/** What an expression of a chain of type nat does. */
function natKind(expression: Expression): RuleKind | undefined {
  switch (expression.name) {
    case 'masq':
      return 'masquerades';
    case 'nat':
      return (expression.type ?? NAT_SOURCE) === NAT_SOURCE ? 'snat' : undefined;
    case 'target':
      if (expression.extension === 'MASQUERADE') return 'masquerades';
      return /^(?:SNAT|NETMAP|SAME)$/.test(expression.extension ?? '') ? 'snat' : undefined;
    case 'lookup':
      return expression.to === VERDICT_REGISTER ? 'leads' : undefined;
    case 'immediate':
      return expression.verdict?.code === ACCEPT ? 'accepts' : undefined;
    default:
      return undefined;
  }
}

/** XT_CT_NOTRACK, in the first two bytes of `struct xt_ct_target_info`. */
const XT_CT_NOTRACK = 1;

/** What an expression of a chain before connection tracking does. */
function rawKind(expression: Expression): RuleKind | undefined {
  if (expression.name === 'unknown') return expression.type === 'notrack' ? 'untracks' : undefined;
  if (expression.name !== 'target') return undefined;
  const { extension, info = '' } = expression;
  const isOff = (Number.parseInt(info.slice(0, 2), 16) & XT_CT_NOTRACK) !== 0;
  return extension === 'NOTRACK' || (extension === 'CT' && isOff) ? 'untracks' : undefined;
}

/** The text of a comment of iptables: it ends at the first zero. */
function textOf(info: string | undefined): string {
  return Buffer.from(info ?? '', 'hex')
    .toString()
    .replace(/\0.*$/s, '');
}
