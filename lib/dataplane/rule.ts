import type { Family } from '../cidr/address.ts';
import { everything, intersection, nothing, type RangeSet } from '../cidr/ranges.ts';

/** What a rule does with a packet that it matches, as far as it decides about masquerading. */
export type Outcome =
  /**
   * Source NAT of any kind: MASQUERADE, SNAT, NETMAP. `to` is what packets leave with, as the tool writes it: an address,
   * a range, ports; undefined if the kernel chooses an address of the link.
   */
  | { readonly kind: 'masquerades'; readonly to?: string | undefined }
  /** The base chain is done with the packet, which goes its way without NAT: ACCEPT. */
  | { readonly kind: 'ends' }
  /** The base chain is done with the packet: DROP, QUEUE and the like; in the agent's own chains also what is not understood. */
  | { readonly kind: 'else' }
  | { readonly kind: 'returns' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  /** No NAT sees the packet any more, because connection tracking is not to see it: NOTRACK, in a chain before that. */
  | { readonly kind: 'untracks' }
  /** Writes another address into the packet, which goes on: NAT that connection tracking does not know of. */
  | { readonly kind: 'rewrites' }
  /** Leads to the agent's own chain. */
  | { readonly kind: 'own' }
  /** The next rule follows. It is a guess for a target that is not known. */
  | { readonly kind: 'goes on'; readonly isGuess?: true };

/** A rule of iptables or nftables, for packets that are not for the node itself, and that nobody has marked for masquerading. */
export interface Rule {
  /** Evidence for people: the rule as its tool writes it, with its chain. */
  readonly text: string;
  /** The destinations that it matches; all if it does not ask for any. */
  readonly destinations: RangeSet;
  /** What else must be so; all of it. */
  readonly conditions: readonly Condition[];
  readonly outcome: Outcome;
  /** The command that deletes it; undefined if it is not known. */
  readonly deletion?: string | undefined;
}

/** What a rule asks of a packet besides its destination. */
export interface Condition {
  readonly text: string;
  /** Whether a packet gives every rule the same answer: its source and interfaces, but not a limit, mark or chance. */
  readonly isSteady: boolean;
  /** The sources that it asks for; undefined if it asks for something else. */
  readonly sources?: RangeSet | undefined;
  /** The link by which it wants packets to leave, or not to leave. */
  readonly output?: OutputTest | undefined;
  /** What is so for packets for which this is not so, if a packet gives every rule the same answer and this is negated. */
  readonly opposite?: Condition | undefined;
}

/** The name of a link, or with a star at its end the beginning of names. */
interface OutputTest {
  readonly name: string;
  readonly isNot: boolean;
}

/** Whether packets that leave by a link are those that the test asks for. */
export function leavesBy({ name, isNot }: OutputTest, link: string): boolean {
  const isLink = name.endsWith('*') ? link.startsWith(name.slice(0, -1)) : link === name;
  return isLink !== isNot;
}

/** Whether no packet fulfils all of the conditions, because it leaves by one link. */
export function areContrary(conditions: readonly Condition[]): boolean {
  const asked = conditions.flatMap(({ output }) => output ?? []);
  const one = asked.find(({ name, isNot }) => !isNot && !name.endsWith('*'));
  return one !== undefined && !asked.every((test) => leavesBy(test, one.name));
}

/** What one match of a rule asks: some destinations, a condition, or nothing that could fail. */
export type Test = RangeSet | Condition | undefined;

/** A rule that asks for all of the tests. */
export function ruleOf(family: Family, text: string, tests: readonly Test[], outcome: Outcome): Rule {
  let destinations: RangeSet | undefined;
  const conditions: Condition[] = [];
  for (const test of tests) {
    if (test === undefined) continue;
    if ('ranges' in test) destinations = destinations === undefined ? test : intersection(destinations, test);
    else conditions.push(test);
  }
  return { text, destinations: destinations ?? everything(family), conditions, outcome };
}

/** Marks that mean "masquerade me": bit 14 of kube-proxy, bit 13 of the CNI plugin portmap. */
const MASQUERADE_MARKS = [0x4000, 0x2000];

/** Where they match the mark that they set, which may be another one. */
const THEIR_CHAINS = /\bKUBE-POSTROUTING\b|\bCNI-HOSTPORT-MASQ\b|\bcni_hostport\b/;

/**
 * What a match of the mark asks of a packet that no one has marked for masquerading. Only such packets are of interest:
 * kube-proxy and portmap mark what they want to be masqueraded.
 *
 * @param tableAndChain the names of table and chain
 */
export function markTest(
  family: Family,
  tableAndChain: string,
  value: number,
  mask: number,
  is: boolean,
): Test {
  // "The bit is not set" is the same as "the mark is not that bit".
  const isClear = value === 0 && mask !== 0 && (mask & (mask - 1)) === 0;
  const [asked, has] = isClear ? [mask, !is] : [value, is];
  const isConvention = MASQUERADE_MARKS.includes(asked) && (mask === asked || mask === 0xffffffff);
  if (isConvention || THEIR_CHAINS.test(tableAndChain)) return has ? nothing(family) : undefined;
  const text = `mark ${has ? '' : 'not '}${hex(asked)}${mask === 0xffffffff ? '' : `/${hex(mask)}`}`;
  return { text, isSteady: false };
}

function hex(value: number): string {
  return `0x${value.toString(16)}`;
}
