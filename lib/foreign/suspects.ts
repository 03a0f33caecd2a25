import type { Family } from '../cidr/address.ts';
import { counted } from '../text/words.ts';
import type { Program } from './programs.ts';

/** What a rule does to packets, as far as its target or expression names it. */
const RULE_KINDS = ['masquerades', 'snat', 'accepts', 'untracks', 'leads'] as const;
export type RuleKind = (typeof RULE_KINDS)[number];

/** Where packets meet it: before the agent's rules, after them, or unknown, because the kernel does not tell the order. */
export type Position = 'before' | 'after' | 'unknown';

/**
 * NAT of another program on the node, or rules that keep packets from all NAT. It is named, not judged: nothing here says which
 * packets its rules concern.
 */
export interface Suspect {
  readonly family: Family;
  readonly position: Position;
  /** Undefined if no name and no comment says it. */
  readonly program: Program | undefined;
  /** Such as `table inet crio, chain postrouting`. */
  readonly place: string;
  readonly rules: Readonly<Partial<Record<RuleKind, number>>>;
  /** The command that shows the rules; undefined if there is none, or if a name in it could mean something else to a shell. */
  readonly show: string | undefined;
}

/** What else does NAT on a node, in the order in which packets meet it. */
export interface Suspects {
  readonly suspects: readonly Suspect[];
  /** The first rules of POSTROUTING as iptables prints them, without the agent's jump, each behind the command that lists it. */
  readonly postrouting: readonly string[];
  /** What could not be read, in words; the same words as long as it is the same. */
  readonly unread: readonly string[];
}

const KIND_TEXT: Readonly<Record<RuleKind, string>> = {
  masquerades: 'masquerading',
  snat: 'SNAT',
  accepts: 'ending NAT early',
  untracks: 'turning connection tracking off, so that no NAT follows and nothing shows how the packets leave',
  leads: 'leading to chains that are not read',
};

const POSITION_TEXT: Readonly<Record<Position, string>> = {
  before: "before the agent's rules",
  after: "after the agent's rules",
  unknown: "before or after the agent's rules",
};

/** Such as `cri-o, table inet crio, chain postrouting (2 rules)`. */
export function suspectText({ family, position, program, place, rules }: Suspect): string {
  const counts = RULE_KINDS.flatMap((kind) =>
    rules[kind] ? `${KIND_TEXT[kind]}: ${counted(rules[kind], 'rule')}` : [],
  );
  const what = counts.length === 0 ? '' : ` (${counts.join(', ')})`;
  const who = program?.name ?? 'an unknown program';
  const does = rules.untracks && !rules.masquerades && !rules.snat ? 'untracks packets' : 'also does NAT';
  return `${does} here, ${POSITION_TEXT[position]}: ${who}, ${place}${what} (${family})`;
}

/** What decides about it, and the command that shows it. */
export function suspectDetails({ program, show }: Suspect): readonly string[] {
  const shown = show === undefined ? [] : [`shown by: ${show}`];
  return [...(program === undefined ? [] : [program.setting]), ...shown];
}
