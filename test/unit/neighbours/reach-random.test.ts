import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { complement, everything, type RangeSet, rangeOf, rangeSet } from '../../../lib/cidr/ranges.ts';
import type { BaseChain, Outcome, Rule } from '../../../lib/neighbours/base-chain.ts';
import type { Condition } from '../../../lib/neighbours/condition.ts';
import { narrow, reach } from '../../../lib/neighbours/reach.ts';
import { crowdedAddress, crowdedPrefix } from '../cidr/arbitrary.ts';

interface Packet {
  readonly destination: bigint;
  /** Texts of the steady conditions that it fulfils. */
  readonly fulfils: readonly string[];
  readonly mark: number;
  /** The answers, one after the other and then again, to what is a matter of chance. */
  readonly chances: readonly boolean[];
}

/** Texts of the rules that the packet meets: those that lead to our chain, and last what ends the base chain. */
function interpret(base: BaseChain, packet: Packet): readonly string[] {
  const met: string[] = [];
  let { mark } = packet;
  let asked = 0;
  const isTrue = (condition: Condition): boolean => {
    if (condition.kind !== 'other') return fulfils({ ...packet, mark }, condition);
    asked += 1;
    return packet.chances[asked % packet.chances.length] ?? true;
  };
  const run = (chain: string): 'done' | 'returned' => {
    for (const { text, destinations, conditions, outcome } of base.chains.get(chain) ?? []) {
      if (!includes(destinations, packet.destination) || !conditions.every(isTrue)) continue;
      if (['masquerades', 'ends', 'own'].includes(outcome.kind)) met.push(text);
      if (outcome.kind === 'masquerades' || outcome.kind === 'ends') return 'done';
      if (outcome.kind === 'changes') mark ^= 1;
      if (outcome.kind === 'returns' || outcome.kind === 'goto') {
        const ended = outcome.kind === 'goto' ? run(outcome.chain) : 'returned';
        if (ended === 'returned' && chain === base.name) met.push(text);
        return ended;
      }
      if (outcome.kind === 'jump' && run(outcome.chain) === 'done') return 'done';
    }
    return 'returned';
  };
  run(base.name);
  return met;
}

function fulfils({ fulfils, mark }: Packet, condition: Condition): boolean {
  if (condition.kind !== 'mark') return fulfils.includes(condition.text);
  return ((mark & condition.mask) === condition.value) === condition.is;
}

function includes({ ranges }: RangeSet, address: bigint): boolean {
  return ranges.some(({ first, last }) => first <= address && address <= last);
}

const destinations = fc.oneof(
  { weight: 1, arbitrary: fc.constant(everything('IPv4')) },
  {
    weight: 3,
    arbitrary: fc.tuple(crowdedPrefix('IPv4'), fc.boolean()).map(([prefix, negated]) => {
      const set = rangeSet('IPv4', [rangeOf(prefix)]);
      return negated ? complement(set) : set;
    }),
  },
);
const markCondition: fc.Arbitrary<Condition> = fc
  .tuple(fc.constantFrom(1, 2), fc.boolean())
  .map(([bit, is]) => ({ kind: 'mark', value: bit, mask: bit, is, past: false }));
const steadyCondition: fc.Arbitrary<Condition> = fc
  .constantFrom('a', 'b')
  .map((text) => ({ kind: 'steady', text }));
const chance: fc.Arbitrary<Condition> = fc.constant({ kind: 'other', text: 'chance' });

const simple: fc.Arbitrary<Outcome> = fc.constantFrom<Outcome>(
  { kind: 'masquerades' },
  { kind: 'ends' },
  { kind: 'returns' },
  { kind: 'own' },
  { kind: 'goes on' },
);

/** Three chains, each leading to later ones only. */
function anyBase(
  conditions: fc.Arbitrary<readonly Condition[]>,
  more: readonly Outcome[],
): fc.Arbitrary<BaseChain> {
  const chain = (name: string, later: readonly string[]) => {
    const leading = later.flatMap((to): Outcome[] => [
      { kind: 'jump', chain: to },
      { kind: 'goto', chain: to },
    ]);
    const outcome = fc.oneof(simple, ...[...leading, ...more].map((one) => fc.constant(one)));
    const rule = fc.record({ destinations, conditions, outcome });
    return fc
      .array(rule, { maxLength: 5 })
      .map((rules): Rule[] => rules.map((one, index) => ({ ...one, text: `${name} ${index}` })));
  };
  return fc.tuple(chain('BASE', ['A', 'B']), chain('A', ['B']), chain('B', [])).map(([base, a, b]) => ({
    where: 'test',
    family: 'IPv4',
    name: 'BASE',
    chains: new Map([
      ['BASE', base],
      ['A', a],
      ['B', b],
    ]),
    unread: [],
  }));
}

const anyPacket: fc.Arbitrary<Packet> = fc.record({
  destination: crowdedAddress('IPv4'),
  fulfils: fc.subarray(['a', 'b']),
  mark: fc.nat(3),
  chances: fc.array(fc.boolean(), { minLength: 1, maxLength: 5 }),
});

/** Texts of the rules that reach says the packet may meet. */
function predicted(
  base: BaseChain,
  packet: Packet,
  minds: (condition: Condition) => boolean,
): ReadonlySet<string> {
  const found = reach(base).filter(
    (reached) =>
      includes(reached.destinations, packet.destination) &&
      reached.conditions.filter(minds).every((condition) => fulfils(packet, condition)),
  );
  return new Set(found.map(({ rule }) => rule.text));
}

/** The same, whatever of several RETURNs it is. */
function blurred({ chains }: BaseChain, texts: Iterable<string>): ReadonlySet<string> {
  const returns = [...chains.values()].flat().filter(({ outcome }) => outcome.kind === 'returns');
  return new Set([...texts].map((text) => (returns.some((rule) => rule.text === text) ? 'RETURN' : text)));
}

describe('reach, compared with an interpreter', () => {
  it('says exactly what happens where only destinations and single marks are asked for', () => {
    const base = anyBase(fc.array(markCondition, { maxLength: 1 }), []);
    fc.assert(
      fc.property(base, fc.array(anyPacket, { minLength: 5 }), (chains, packets) => {
        for (const packet of packets) {
          const only = { first: packet.destination, last: packet.destination };
          const narrowed = narrow(chains, rangeSet('IPv4', [only]));
          assert.deepEqual(
            predicted(narrowed, packet, () => true),
            new Set(interpret(chains, packet)),
          );
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('never misses what happens, whatever is asked for and changed', () => {
    const any = fc.oneof(markCondition, steadyCondition, steadyCondition, chance);
    const base = anyBase(fc.array(any, { maxLength: 2 }), [
      { kind: 'changes' },
      { kind: 'changes' },
      { kind: 'changes' },
    ]);
    fc.assert(
      fc.property(base, fc.array(anyPacket, { minLength: 5 }), (chains, packets) => {
        const changes = [...chains.chains.values()].flat().some(({ outcome }) => outcome.kind === 'changes');
        const minds = ({ kind }: Condition) => kind === 'steady' || (kind === 'mark' && !changes);
        for (const packet of packets) {
          const may = blurred(chains, predicted(chains, packet, minds));
          for (const text of blurred(chains, interpret(chains, packet))) assert.ok(may.has(text), text);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
