import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { complement, everything, type RangeSet, rangeOf, rangeSet } from '../../../../lib/cidr/ranges.ts';
import type { BaseChain, Outcome, Rule } from '../../../../lib/dataplane/foreign/chain.ts';
import type { Condition } from '../../../../lib/dataplane/foreign/condition.ts';
import { reach } from '../../../../lib/dataplane/foreign/reach.ts';
import { crowdedAddress, crowdedPrefix } from '../../cidr/arbitrary.ts';

interface Packet {
  readonly destination: bigint;
  /** Texts of the conditions that it fulfils, of those that are not about marks. */
  readonly fulfils: readonly string[];
  readonly mark: number;
}

/** Texts of the rules that the packet meets: those that lead to our chain, and last the one that decides. */
function interpret(base: BaseChain, packet: Packet): readonly string[] {
  const met: string[] = [];
  let { mark } = packet;
  const isTrue = (condition: Condition): boolean =>
    condition.kind === 'other'
      ? packet.fulfils.includes(condition.text)
      : ((mark & condition.mask) === condition.value) === condition.is;
  const run = (chain: string): 'done' | 'returned' => {
    for (const { text, destinations, conditions, outcome } of base.chains.get(chain) ?? []) {
      if (!includes(destinations, packet.destination) || !conditions.every(isTrue)) continue;
      if (['masquerades', 'ends', 'ours'].includes(outcome.kind)) met.push(text);
      if (outcome.kind === 'masquerades' || outcome.kind === 'ends') return 'done';
      if (outcome.kind === 'returns') return 'returned';
      if (outcome.kind === 'marks') mark ^= 1;
      if (outcome.kind === 'goto') return run(outcome.chain);
      if (outcome.kind === 'jump' && run(outcome.chain) === 'done') return 'done';
    }
    return 'returned';
  };
  run(base.name);
  return met;
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
const otherCondition: fc.Arbitrary<Condition> = fc
  .constantFrom('a', 'b', 'c')
  .map((text) => ({ kind: 'other', text }));

const simple: fc.Arbitrary<Outcome> = fc.constantFrom<Outcome>(
  { kind: 'masquerades' },
  { kind: 'ends' },
  { kind: 'returns' },
  { kind: 'ours' },
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
  fulfils: fc.subarray(['a', 'b', 'c']),
  mark: fc.nat(3),
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
      reached.conditions
        .filter(minds)
        .every((condition) =>
          condition.kind === 'other'
            ? packet.fulfils.includes(condition.text)
            : ((packet.mark & condition.mask) === condition.value) === condition.is,
        ),
  );
  return new Set(found.map(({ rule }) => rule.text));
}

describe('reach, compared with an interpreter', () => {
  it('says exactly what happens where only destinations and single marks are asked for', () => {
    const base = anyBase(fc.array(markCondition, { maxLength: 1 }), []);
    fc.assert(
      fc.property(base, fc.array(anyPacket, { minLength: 5 }), (chains, packets) => {
        for (const packet of packets) {
          assert.deepEqual(
            predicted(chains, packet, () => true),
            new Set(interpret(chains, packet)),
          );
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('never misses what happens, whatever is asked for and changed', () => {
    const base = anyBase(fc.array(fc.oneof(markCondition, otherCondition), { maxLength: 3 }), [
      { kind: 'marks' },
    ]);
    fc.assert(
      fc.property(base, fc.array(anyPacket, { minLength: 5 }), (chains, packets) => {
        const changes = [...chains.chains.values()].flat().some(({ outcome }) => outcome.kind === 'marks');
        for (const packet of packets) {
          const may = predicted(chains, packet, ({ kind }) => kind === 'other' || !changes);
          for (const text of interpret(chains, packet)) assert.ok(may.has(text), text);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});
