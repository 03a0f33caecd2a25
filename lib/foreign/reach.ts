import type { Family } from '../cidr/address.ts';
import {
  complement,
  difference,
  everything,
  intersection,
  type Range,
  type RangeSet,
  rangeSet,
  union,
} from '../cidr/ranges.ts';
import { areContrary, type Condition, type Outcome, type Rule } from '../dataplane/rule.ts';
import type { BaseChain, ReadChain } from './base-chain.ts';
import type { Budget } from './budget.ts';

/** Packets that go through the chains. */
interface PacketSet {
  readonly destinations: RangeSet;
  /** What else is so for all of them. */
  readonly conditions: readonly Condition[];
  /** The rules that lead them from the base chain on; if several lead there, the first. */
  readonly path: readonly Rule[];
  /** Whether the agent's own rules would follow; undefined if they are in another base chain, which may follow. */
  readonly isBeforeOwn: boolean | undefined;
  /** Whether the base chain is done with those that a chain returns. */
  readonly isLast: boolean;
}

/** A rule that decides about packets, and the packets that may reach it; the last rule of their path is the rule itself. */
export interface ReachedRule extends PacketSet {
  /** `ends`: the packets leave the base chain without NAT, or are dropped. */
  readonly effect: 'masquerades' | 'untracks' | 'rewrites' | 'ends';
  readonly rule: Rule;
}

/**
 * Visits the rules that decide about packets that may reach them. It takes each chain once, with the packets of all rules that
 * lead to it together, so it may name more packets than reach a rule, never fewer.
 *
 * @param narrow what a rule asks of the packets in question
 * @throws {TooManyRules | NetlinkError}
 */
export async function visitDeciding(
  base: BaseChain,
  budget: Budget,
  visit: (reached: ReachedRule) => void,
  narrow = (rule: Rule) => rule,
): Promise<void> {
  const order = callersFirst(base);
  const leading = chainsToOwn(base, order);
  const isBeforeOwn = leading.has(base.name) || base.isAfterOwn ? false : undefined;
  const start = {
    destinations: everything(base.family),
    conditions: [],
    path: [],
    isBeforeOwn,
    isLast: true,
  };
  const entering = new Map<string, PacketSet>([[base.name, start]]);
  const reach = ({ rule, ...packets }: Reached): void => {
    const effect = EFFECTS[rule.outcome.kind];
    if (effect !== undefined) visit({ rule, effect, ...packets });
    if (!('chain' in rule.outcome)) return;
    const other = entering.get(rule.outcome.chain);
    entering.set(rule.outcome.chain, other === undefined ? packets : together(other, packets));
  };
  for (const name of order) {
    const packets = entering.get(name);
    if (packets === undefined) continue;
    const chain = base.chains.get(name);
    const walk = new Walk(packets, leadingToOwn(chain, leading), reach);
    await chain?.each((rule) => walk.meet(narrow(rule), leadsToOwn(rule, leading)), budget);
    await budget.work(() => walk.end());
  }
}

const EFFECTS: Readonly<Partial<Record<Outcome['kind'], ReachedRule['effect']>>> = {
  masquerades: 'masquerades',
  untracks: 'untracks',
  rewrites: 'rewrites',
  ends: 'ends',
  returns: 'ends',
  else: 'ends',
};

/** The chains that lead to the agent's own. */
function chainsToOwn({ chains }: BaseChain, order: readonly string[]): ReadonlySet<string> {
  const leading = new Set<string>();
  for (const name of order.toReversed()) if (leadingToOwn(chains.get(name), leading) > 0) leading.add(name);
  return leading;
}

/** How many rules of the chain lead to the agent's own. */
function leadingToOwn(chain: ReadChain | undefined, leading: ReadonlySet<string>): number {
  const { targets, toOwn } = chain ?? { targets: [], toOwn: 0 };
  return [...targets].reduce((sum, [name, rules]) => (leading.has(name) ? sum + rules : sum), toOwn);
}

function leadsToOwn({ outcome }: Rule, leading: ReadonlySet<string>): boolean {
  return outcome.kind === 'own' || ('chain' in outcome && leading.has(outcome.chain));
}

/** The chains in an order in which each follows all that lead to it, unless they lead in a circle. */
function callersFirst({ name: base, chains }: BaseChain): readonly string[] {
  const seen = new Set<string>();
  const order: string[] = [];
  const visit = (name: string): void => {
    if (seen.has(name)) return;
    seen.add(name);
    for (const target of chains.get(name)?.targets.keys() ?? []) visit(target);
    order.push(name);
  };
  visit(base);
  return order.toReversed();
}

type Reached = Omit<ReachedRule, 'effect'>;

/** What happens to packets that enter a chain: tells of the rules that decide or lead on, and of the packets that may reach them. */
class Walk {
  #packets: PacketSet;
  readonly #reach: (reached: Reached) => void;
  readonly #taken: TakenDestinations;
  /** How many of the rules that follow lead to the agent's own chain. */
  #toOwn: number;

  constructor(packets: PacketSet, toOwn: number, reach: (reached: Reached) => void) {
    this.#packets = packets;
    this.#toOwn = toOwn;
    this.#reach = reach;
    this.#taken = new TakenDestinations(packets.destinations.family);
  }

  /** Takes the next rule of the chain. */
  meet(rule: Rule, leadsToOwn: boolean): void {
    if (leadsToOwn) this.#toOwn -= 1;
    this.#tell(rule, [...this.#packets.path, rule]);
    if (!ENDING.includes(rule.outcome.kind)) return;
    this.#taken.take(rule);
    const opposite = oppositeOf(rule);
    if (opposite !== undefined)
      this.#packets = { ...this.#packets, conditions: distinct([...this.#packets.conditions, opposite]) };
  }

  /** What falls off the end of a chain that a goto has led to does not come back. */
  end(): void {
    const { path, destinations } = this.#packets;
    const goto = path.at(-1);
    if (goto?.outcome.kind === 'goto')
      this.#tell({ ...goto, destinations, conditions: [], outcome: { kind: 'returns' } }, path);
  }

  #tell(rule: Rule, path: readonly Rule[]): void {
    const { destinations, conditions, isBeforeOwn, isLast } = this.#packets;
    const { kind } = rule.outcome;
    const effect = EFFECTS[kind];
    const isFollowed = this.#toOwn > 0;
    if (effect === undefined && !('chain' in rule.outcome)) return;
    // Thousands of rules that return from a chain of another agent decide nothing.
    if (kind === 'returns' && !isLast) return;
    if (effect === 'ends' && isBeforeOwn !== true && !isFollowed) return;
    const reached = {
      rule,
      destinations: intersection(destinations, this.#taken.leftFor(rule)),
      conditions: distinct([...conditions, ...rule.conditions]),
      path,
      isBeforeOwn: isBeforeOwn === undefined ? undefined : isBeforeOwn || isFollowed,
      isLast: isLast && kind !== 'jump',
    };
    if (reached.destinations.ranges.length > 0 && !areContrary(reached.conditions)) this.#reach(reached);
  }
}

/** What is so for all packets that a rule lets pass which takes all that is not so, whatever their destination. */
function oppositeOf({ conditions, destinations }: Rule): Condition | undefined {
  const [condition, ...more] = conditions;
  const takesAll = more.length === 0 && complement(destinations).ranges.length === 0;
  return takesAll ? condition?.opposite : undefined;
}

/** After others, packets go on in the same chain. */
const ENDING: readonly Outcome['kind'][] = ['goto', 'masquerades', 'ends', 'returns', 'else'];

function distinct(conditions: readonly Condition[]): readonly Condition[] {
  return [...new Map(conditions.map((one) => [one.text, one])).values()];
}

/** What is remembered of the earlier rules of a chain; what is not narrows nothing. */
const MOST_TAKEN = 5_000;

/** What earlier rules of a chain have taken from the later ones: destinations, by the conditions of the earlier rules. */
class TakenDestinations {
  readonly #family: Family;
  readonly #sets = new Map<string, { set: RangeSet; more: Range[] }>();
  #size = 0;

  constructor(family: Family) {
    this.#family = family;
  }

  take({ conditions, destinations }: Rule): void {
    if (!conditions.every(({ isSteady }) => isSteady) || this.#size >= MOST_TAKEN) return;
    this.#size += destinations.ranges.length;
    const key = keyOf(conditions);
    const taken = this.#sets.get(key);
    // Another agent lists thousands of CIDRs: they are put in order only when a rule asks for them.
    if (taken === undefined) this.#sets.set(key, { set: destinations, more: [] });
    else for (const range of destinations.ranges) taken.more.push(range);
  }

  /** Compares with rules that ask for nothing else, for one of the conditions of the rule, or for all of them. */
  leftFor({ conditions, destinations }: Rule): RangeSet {
    let left = destinations;
    for (const key of new Set(['', ...conditions.map(({ text }) => text), keyOf(conditions)])) {
      const taken = this.#sets.get(key);
      if (taken === undefined) continue;
      if (taken.more.length > 0) taken.set = rangeSet(this.#family, [...taken.set.ranges, ...taken.more]);
      taken.more = [];
      left = difference(left, taken.set);
    }
    return left;
  }
}

function keyOf(conditions: readonly Condition[]): string {
  const texts = conditions.map(({ text }) => text);
  return texts.toSorted().join('\n');
}

/** The packets of both sets: only the conditions of both hold for all of them. */
function together(first: PacketSet, other: PacketSet): PacketSet {
  return {
    destinations: union(first.destinations, other.destinations),
    conditions: first.conditions.filter(({ text }) => other.conditions.some((one) => one.text === text)),
    path: first.path,
    isBeforeOwn: first.isBeforeOwn || other.isBeforeOwn,
    isLast: first.isLast || other.isLast,
  };
}
