import type { Survey } from '../agent/rule-locations.ts';
import { formatAddress } from '../cidr/address.ts';
import type { Prefix } from '../cidr/prefix.ts';
import { formatRange, rangeOf, sameRanges } from '../cidr/ranges.ts';
import type { MergedConfig } from '../config/config.ts';
import type { KernelVerdict, KernelVerdicts } from '../dataplane/dataplane.ts';
import { verdictAt } from '../dataplane/kernel-verdicts.ts';
import type { FlowTo } from '../flows/destinations.ts';
import type { Suspect, Suspects } from '../foreign/suspects.ts';
import { egressOf } from '../node/egress.ts';
import { type Decision, decide } from '../policy/decision.ts';
import { allowedSources, cutBySegments, flatten } from '../policy/flatten.ts';
import {
  type Address,
  compilePolicy,
  type Family,
  nodeAddressText,
  type OwnAddress,
  type Verdict,
} from '../policy/policy.ts';

/** What happens to traffic to an address. */
export interface Explained {
  readonly address: Address;
  /** The addresses, of a range that was asked for, of which all this is true too, in words. */
  readonly range?: string;
  /** The address that was asked for, if conntrack shows that connections to it go to this one instead. */
  readonly translatedFrom?: Address;
  /** What the config says; undefined if it is invalid. */
  readonly decision: Decision | undefined;
  /** Whether the agent keeps rules for the family; false if it is not enabled. */
  readonly isKept: boolean;
  /** What the kernel does; undefined without --live. */
  readonly live: LiveVerdict | undefined;
}

/** What the kernel of this node does with traffic to an address. */
export interface LiveVerdict {
  /** Whether it is an address of the node itself, which never meets the agent's rules. */
  readonly isLocal: boolean;
  readonly kernel: KernelVerdict;
  /** Whether the agent's rules do what the config says; undefined if it is invalid. */
  readonly agrees: boolean | undefined;
  /** What rules of the agent, or of another agent of that name, do in the dataplanes and modes that are not used. */
  readonly elsewhere: readonly Elsewhere[];
  /** What conntrack shows of connections to it. */
  readonly flows: readonly FlowTo[];
  /** What else does NAT on the node for this family, in the order of packets. */
  readonly suspects: readonly Suspect[];
  /** What could not be read, in words. */
  readonly unread: readonly string[];
  /** How packets leave the node, or why they do not, in words; undefined without --from. */
  readonly egress: string | undefined;
}

/** What the rules in a dataplane or mode that is not used do. */
export interface Elsewhere extends KernelVerdict {
  /** The dataplane's name. */
  readonly where: string;
  /** Whether they masquerade, or may masquerade, what the config does not: no other rule can undo that. */
  readonly differs: boolean;
}

/** What is asked about each address. */
export interface ExplainRequest {
  /** Undefined if it is invalid. */
  readonly config: MergedConfig | undefined;
  /** Where the packets come from; undefined for any address that is listed. */
  readonly from: Address | undefined;
  /** For which the agent keeps rules. */
  readonly families: readonly Family[];
}

/**
 * What the config says about packets to an address.
 *
 * @param own the addresses of the node; undefined if the node is not known
 */
export function explained(
  { config, from, families }: ExplainRequest,
  address: Address,
  own?: readonly OwnAddress[],
): Explained {
  const decision = config && decide(config, address, from, own);
  return { address, decision, isKept: families.includes(address.family), live: undefined };
}

/** What the config says about packets to each address of a range: an answer wherever another entry decides. */
export function explainedRange(
  question: ExplainRequest & { readonly config: MergedConfig },
  prefix: Prefix,
): readonly Explained[] {
  const { family } = prefix;
  const segments = flatten(compilePolicy(question.config, family));
  return Array.from(cutBySegments(segments, rangeOf(prefix)), (range) => ({
    ...explained(question, { family, value: range.first }),
    range: formatRange(family, range),
  }));
}

/** What was read of the node, for addresses of one family. */
export interface ObservedNode extends ObservedPlaces {
  readonly own: readonly OwnAddress[];
  readonly isOwn: (address: Address) => boolean;
  readonly suspects: Suspects;
  /** Connections to the address. */
  readonly flows: readonly FlowTo[];
}

/** What the config says about an address, and what the kernel does. */
export async function explainedLive(
  question: ExplainRequest,
  address: Address,
  observed: ObservedNode,
): Promise<Explained> {
  const { config, from } = question;
  const { used, suspects, flows, isOwn } = observed;
  const said = explained(question, address, observed.own);
  const kernel = verdictAt(used, address, from);
  const meant = config && allowedSources(compilePolicy(config, address.family))?.ranges;
  const hasOtherSources =
    config !== undefined &&
    said.isKept &&
    from === undefined &&
    said.decision?.source.isLeftAlone !== true &&
    kernel.state === 'applied' &&
    !sameRanges(used.from?.ranges, meant);
  const as = masqueradedAs(kernel);
  const egress = from && (await egressOf(address, from, { as, isOwn: isOwn(from) }));
  const isOfNode = observed.leavesNode && from !== undefined && as === 'link' && isOwn(from);
  const ofNode = isOfNode ? ownText(from) : '';
  return {
    ...said,
    live: {
      isLocal: isOwn(address),
      kernel: hasOtherSources ? { ...kernel, kernelRule: OTHER_SOURCES } : kernel,
      agrees: config && agree(said, kernel) && !hasOtherSources,
      elsewhere: verdictsElsewhere(observed, from, said),
      flows,
      suspects: suspects.suspects.filter(({ family }) => family === address.family),
      unread: [...observed.unread, ...suspects.unread],
      egress: egress && `${egress}${ofNode}`,
    },
  };
}

function masqueradedAs({ verdict, as }: KernelVerdict): string | undefined {
  return verdict === 'masqueraded' ? (as ?? 'link') : undefined;
}

function ownText(from: Address): string {
  return `; ${formatAddress(from)} is an address of this node: packets that leave by the link with this address are left alone`;
}

/** Whether the kernel does what the config says, as far as the agent's rules are concerned. */
export function agreesWholly({ agrees, elsewhere }: LiveVerdict): boolean {
  return agrees === true && !elsewhere.some(({ differs }) => differs);
}

/** What decides about packets before the agent's rules do or, for what they leave alone, may masquerade it anyway. */
export function contenders({ suspects }: LiveVerdict, wanted: Verdict): readonly Suspect[] {
  if (wanted === 'masqueraded') return suspects.filter(({ position }) => position === 'before');
  return suspects.filter(({ rules }) => !rules.untracks || rules.masquerades || rules.snat);
}

/** Whether the kernel agrees with the config. If a family is off, the kernel must hold none of the agent's rules. */
function agree({ decision, isKept }: Explained, { state, verdict, as }: KernelVerdict): boolean {
  if (!isKept) return state === 'no chain';
  const meant = decision?.as && nodeAddressText(decision.as);
  return state === 'applied' && verdict === decision?.verdict && as === meant;
}

const OTHER_SOURCES = 'its rules have other source ranges than the config; see ip-masq-agent diff';

/** The agent's rules of one family in the dataplane that is used, and in all others. */
interface ObservedPlaces {
  readonly used: KernelVerdicts;
  /** Whether the rules leave the node's own connections alone: those of v1 and v2 do not. */
  readonly leavesNode: boolean;
  readonly others: readonly { readonly where: string; readonly verdicts: KernelVerdicts }[];
  /** What could not be read, in words. */
  readonly unread: readonly string[];
}

/** @throws {DataplaneError} if the dataplane in use cannot be read */
export function placesOf(family: Family, { used, others }: Survey): ObservedPlaces {
  const of = (states: Survey['used']) => states.filter((one) => one.family === family);
  const [own] = of(used);
  if (own === undefined || 'error' in own) throw own?.error;
  return {
    used: own.observed.verdicts(),
    leavesNode: own.kind === 'found' && own.rules.some((rule) => OF_NODE.test(rule)),
    others: of(others)
      .filter((one) => one.kind === 'found')
      .map((one) => ({ where: one.dataplane.name, verdicts: one.observed.verdicts() })),
    unread: of(others)
      .filter((one) => one.kind === 'unreadable')
      .map(({ error }) => error.message),
  };
}

/** In the rules of iptables, and of nftables. */
const OF_NODE = / --src-type LOCAL --limit-iface-out .*-j RETURN|\bfib saddr \. oif type local return\b/;

function verdictsElsewhere(
  { others }: ObservedPlaces,
  from: Address | undefined,
  { address, decision, isKept }: Explained,
): readonly Elsewhere[] {
  const mayMasquerade = decision === undefined || (isKept && decision.verdict === 'masqueraded');
  return others.flatMap(({ where, verdicts }) => {
    const { state, verdict, kernelRule } = verdictAt(verdicts, address, from);
    if (state === 'no chain' || state === 'no jump') return [];
    const differs = !mayMasquerade && (state === 'changed' || verdict === 'masqueraded');
    return [{ where, state, verdict, kernelRule, differs }];
  });
}
