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
  readonly conditions: readonly string[];
  /** The rules that lead them from the base chain on; if several lead there, the first. */
  readonly path: readonly Rule[];
}

/** A masquerading rule, and the packets that may reach it; the last rule of their path is the rule itself. */
export interface ReachedRule extends PacketSet {
  readonly rule: Rule;
}

/**
 * Visits the masquerading rules that packets may reach. It takes each chain once, with the packets of all rules that lead to it
 * together, so it may name more packets than reach a rule, never fewer.
 *
 * @throws {TooMany}
 */
export async function visitMasquerading(
  base: BaseChain,
  budget: Budget,
  visit: (reached: ReachedRule) => void,
): Promise<void> {
  const start = { destinations: everything(base.family), conditions: [], path: [] };
  const entering = new Map<string, PacketSet>([[base.name, start]]);
  for (const chain of await budget.work(() => callersFirst(base, budget))) {
    const packets = entering.get(chain);
    if (packets === undefined) continue;
    await budget.work(() => {
      for (const { rule, ...next } of reachedRules(packets, base.chains.get(chain) ?? [], budget)) {
        if (rule.outcome.kind === 'masquerades') visit({ rule, ...next });
        else if ('chain' in rule.outcome) {
          const other = entering.get(rule.outcome.chain);
          entering.set(rule.outcome.chain, other === undefined ? next : together(other, next));
        }
      }
    });
  }
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

/** The rules of a chain that masquerade or lead on, and the packets that may reach them. */
function* reachedRules(packets: PacketSet, rules: readonly Rule[], budget: Budget): Generator<ReachedRule> {
  const taken = new TakenDestinations(packets.destinations.family);
  for (const rule of rules) {
    budget.check();
    const { kind } = rule.outcome;
    if (kind === 'masquerades' || kind === 'jump' || kind === 'goto') {
      const destinations = intersection(packets.destinations, taken.leftFor(rule));
      const conditions = new Set([...packets.conditions, ...rule.conditions.map(({ text }) => text)]);
      if (destinations.ranges.length > 0)
        yield { rule, destinations, conditions: [...conditions], path: [...packets.path, rule] };
    }
    if (kind !== 'jump' && kind !== 'own' && kind !== 'goes on') taken.take(rule);
  }
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
    ...first,
    destinations: union(first.destinations, other.destinations),
    conditions: first.conditions.filter((text) => other.conditions.includes(text)),
  };
}

/**
 * The rules that lead packets to one address to the end of the base chain, without NAT, before they meet the agent's
 * chain; undefined if they meet it, or may meet it.
 *
 * @param base narrowed to the address
 */
export function endBeforeOwn({ name, chains }: BaseChain): readonly Rule[] | undefined {
  const known = new Map<string, readonly Rule[]>();
  /** The rules that lead packets, which may fulfil any condition, but need not, out of a chain; none at its end. */
  const walk = (chain: string): readonly Rule[] => {
    const before = known.get(chain);
    if (before !== undefined) return before;
    // Chains that lead in a circle come back.
    known.set(chain, []);
    for (const rule of chains.get(chain) ?? []) {
      const inner = 'chain' in rule.outcome ? walk(rule.outcome.chain) : [];
      const path = [rule, ...(COMING_BACK.includes(lastKind(inner)) ? [] : inner)];
      const kind = lastKind(path);
      if (kind === 'goes on' || kind === 'jump' || (kind !== 'own' && rule.conditions.length > 0)) continue;
      known.set(chain, path);
      return path;
    }
    return [];
  };
  const path = walk(name);
  const kind = lastKind(path);
  const leadsToOurs = [...chains.values()].flat().some(({ outcome }) => outcome.kind === 'own');
  if (!leadsToOurs || kind === undefined || kind === 'own' || kind === 'masquerades') return undefined;
  return path;
}

/** What the last rule of a path does if packets then go on behind the jump that has led them there, if one has. */
const COMING_BACK: readonly (Outcome['kind'] | undefined)[] = ['returns', 'goto', undefined];

function lastKind(path: readonly Rule[]): Outcome['kind'] | undefined {
  return path.at(-1)?.outcome.kind;
}
