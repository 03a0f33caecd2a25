import type { Family } from '../cidr/address.ts';
import {
  difference,
  everything,
  intersection,
  type Range,
  type RangeSet,
  rangeSet,
  union,
} from '../cidr/ranges.ts';
import type { Condition, Outcome, Rule } from '../dataplane/rule.ts';
import type { BaseChain } from './base-chain.ts';
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
  readonly effect: 'masquerades' | 'untracks' | 'ends';
  readonly rule: Rule;
}

/**
 * Visits the rules that decide about packets that may reach them. It takes each chain once, with the packets of all rules that
 * lead to it together, so it may name more packets than reach a rule, never fewer.
 *
 * @throws {TooManyRules}
 */
export async function visitDeciding(
  base: BaseChain,
  budget: Budget,
  visit: (reached: ReachedRule) => void,
): Promise<void> {
  const order = await budget.work(() => callersFirst(base, budget));
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
  for (const chain of order) {
    const packets = entering.get(chain);
    if (packets === undefined) continue;
    await budget.work(() => {
      const rules = base.chains.get(chain) ?? [];
      const lastToOwn = rules.findLastIndex((rule) => leadsToOwn(rule, leading));
      for (const { rule, ...next } of reachedRules(packets, rules, lastToOwn, budget)) {
        const effect = EFFECTS[rule.outcome.kind];
        if (effect !== undefined) visit({ rule, effect, ...next });
        if (!('chain' in rule.outcome)) continue;
        const other = entering.get(rule.outcome.chain);
        entering.set(rule.outcome.chain, other === undefined ? next : together(other, next));
      }
    });
  }
}

const EFFECTS: Readonly<Partial<Record<Outcome['kind'], ReachedRule['effect']>>> = {
  masquerades: 'masquerades',
  untracks: 'untracks',
  ends: 'ends',
  returns: 'ends',
  else: 'ends',
};

/** The chains that lead to the agent's own. */
function chainsToOwn({ chains }: BaseChain, order: readonly string[]): ReadonlySet<string> {
  const leading = new Set<string>();
  for (const name of order.toReversed())
    if (chains.get(name)?.some((rule) => leadsToOwn(rule, leading))) leading.add(name);
  return leading;
}

function leadsToOwn({ outcome }: Rule, leading: ReadonlySet<string>): boolean {
  return outcome.kind === 'own' || ('chain' in outcome && leading.has(outcome.chain));
}

/** The chains in an order in which each follows all that lead to it, unless they lead in a circle. */
function callersFirst({ name: base, chains }: BaseChain, budget: Budget): readonly string[] {
  const seen = new Set<string>();
  const order: string[] = [];
  const visit = (name: string): void => {
    if (seen.has(name)) return;
    seen.add(name);
    for (const { outcome } of chains.get(name) ?? []) {
      budget.check();
      if ('chain' in outcome) visit(outcome.chain);
    }
    order.push(name);
  };
  visit(base);
  return order.toReversed();
}

type Reached = Omit<ReachedRule, 'effect'>;

/**
 * The rules of a chain that decide or lead on, and the packets that may reach them.
 *
 * @param lastToOwn the index of the last rule that leads to the agent's own chain; -1 if none does
 */
function* reachedRules(
  packets: PacketSet,
  rules: readonly Rule[],
  lastToOwn: number,
  budget: Budget,
): Generator<Reached> {
  const taken = new TakenDestinations(packets.destinations.family);
  const reach = (rule: Rule, index: number, path: readonly Rule[]): Reached => ({
    rule,
    destinations: intersection(packets.destinations, taken.leftFor(rule)),
    conditions: distinct([...packets.conditions, ...rule.conditions]),
    path,
    isBeforeOwn: packets.isBeforeOwn === undefined ? undefined : packets.isBeforeOwn || index < lastToOwn,
    isLast: packets.isLast && rule.outcome.kind !== 'jump',
  });
  const decides = ({ outcome: { kind } }: Rule, index: number): boolean => {
    if (LEADING_ON.includes(kind)) return true;
    // Thousands of rules that return from a chain of another agent decide nothing.
    if (kind === 'returns' && !packets.isLast) return false;
    return EFFECTS[kind] !== undefined && (packets.isBeforeOwn === true || index < lastToOwn);
  };
  for (const [index, rule] of rules.entries()) {
    budget.check();
    const reached = decides(rule, index) ? reach(rule, index, [...packets.path, rule]) : undefined;
    if (reached !== undefined && reached.destinations.ranges.length > 0) yield reached;
    if (!GOING_ON.includes(rule.outcome.kind)) taken.take(rule);
  }
  // What falls off the end of a chain that a goto has led to does not come back.
  const goto = packets.path.at(-1);
  if (goto?.outcome.kind !== 'goto') return;
  const end: Rule = {
    ...goto,
    destinations: packets.destinations,
    conditions: [],
    outcome: { kind: 'returns' },
  };
  if (!decides(end, rules.length)) return;
  const fallen = reach(end, rules.length, packets.path);
  if (fallen.destinations.ranges.length > 0) yield fallen;
}

/** What is of interest wherever the agent's own chain is. */
const LEADING_ON: readonly Outcome['kind'][] = ['jump', 'goto', 'masquerades', 'untracks'];
/** After these, packets go on in the same chain. */
const GOING_ON: readonly Outcome['kind'][] = ['jump', 'own', 'goes on', 'untracks'];

function distinct(conditions: readonly Condition[]): readonly Condition[] {
  return [...new Map(conditions.map((one) => [one.text, one])).values()];
}

/** What earlier rules of a chain have taken from the later ones: destinations, by the conditions of the earlier rules. */
class TakenDestinations {
  readonly #family: Family;
  readonly #sets = new Map<string, { set: RangeSet; more: Range[] }>();

  constructor(family: Family) {
    this.#family = family;
  }

  take({ conditions, destinations }: Rule): void {
    if (!conditions.every(({ isSteady }) => isSteady)) return;
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
