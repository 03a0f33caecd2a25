import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { complement, everything, type RangeSet, rangeOf, rangeSet } from '../../../lib/cidr/ranges.ts';
import type { Condition, Outcome, Rule } from '../../../lib/dataplane/rule.ts';
import { type ReachedRule, visitDeciding } from '../../../lib/foreign/reach.ts';
import { crowdedAddress, crowdedPrefix } from '../cidr/arbitrary.ts';
import { baseOf, unlimited } from './support.ts';

interface Packet {
  readonly destination: bigint;
  /** Texts of the steady conditions that it fulfils. */
  readonly fulfils: readonly string[];
  /** The answers, one after the other and then again, to what is a matter of chance. */
  readonly chances: readonly boolean[];
}

/** The text of the masquerading rule that the packet meets; undefined if it meets none. */
function interpret(chains: ReadonlyMap<string, readonly Rule[]>, packet: Packet): string | undefined {
  let asked = 0;
  const isTrue = ({ text, isSteady }: Condition): boolean => {
    if (isSteady) return packet.fulfils.includes(text);
    asked += 1;
    return packet.chances[asked % packet.chances.length] ?? true;
  };
  let met: string | undefined;
  const run = (chain: string): 'done' | 'returned' => {
    for (const { text, destinations, conditions, outcome } of chains.get(chain) ?? []) {
      if (!includes(destinations, packet.destination) || !conditions.every(isTrue)) continue;
      switch (outcome.kind) {
        case 'masquerades':
          met = text;
          return 'done';
        case 'ends':
          return 'done';
        case 'returns':
          return 'returned';
        case 'goto':
          return run(outcome.chain);
        case 'jump':
          if (run(outcome.chain) === 'done') return 'done';
      }
    }
    return 'returned';
  };
  run('BASE');
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
const condition: fc.Arbitrary<Condition> = fc.constantFrom(
  { text: 'a', isSteady: true },
  { text: 'b', isSteady: true },
  { text: 'chance', isSteady: false },
);
const conditions = fc.array(condition, { maxLength: 2 });

const simple: fc.Arbitrary<Outcome> = fc.constantFrom<Outcome>(
  { kind: 'masquerades' },
  { kind: 'ends' },
  { kind: 'returns' },
  { kind: 'own' },
  { kind: 'goes on' },
);

/** A chain that leads to later ones only. */
function chain(name: string, later: readonly string[]): fc.Arbitrary<readonly Rule[]> {
  const leading = later.flatMap((to): Outcome[] => [
    { kind: 'jump', chain: to },
    { kind: 'goto', chain: to },
  ]);
  const outcome = fc.oneof(simple, ...leading.map((one) => fc.constant(one)));
  return fc
    .array(fc.record({ destinations, conditions, outcome }), { maxLength: 5 })
    .map((rules) => rules.map((one, index) => ({ ...one, text: `${name} ${index}` })));
}

const anyChains: fc.Arbitrary<ReadonlyMap<string, readonly Rule[]>> = fc
  .tuple(chain('BASE', ['A', 'B']), chain('A', ['B']), chain('B', []))
  .map(([base, a, b]) => new Map(Object.entries({ BASE: base, A: a, B: b })));

const anyPacket: fc.Arbitrary<Packet> = fc.record({
  destination: crowdedAddress('IPv4'),
  fulfils: fc.subarray(['a', 'b']),
  chances: fc.array(fc.boolean(), { minLength: 1, maxLength: 4 }),
});

describe('reach, compared with an interpreter', () => {
  it('never misses a rule that masquerades a packet, whatever is asked for', async () => {
    await fc.assert(
      fc.asyncProperty(anyChains, fc.array(anyPacket, { minLength: 5 }), async (chains, packets) => {
        const found: ReachedRule[] = [];
        const base = baseOf(chains, { chainText: 'test', family: 'IPv4', name: 'BASE' });
        await visitDeciding(base, unlimited(), (reached) => found.push(reached));
        for (const packet of packets) {
          const met = interpret(chains, packet);
          const reached = found.find(({ rule }) => rule.text === met);
          if (met === undefined) continue;
          assert.ok(reached && includes(reached.destinations, packet.destination), met);
          const kept = reached.conditions.map(({ text }) => text).filter((text) => text !== 'chance');
          assert.ok(
            kept.every((text) => packet.fulfils.includes(text)),
            met,
          );
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
