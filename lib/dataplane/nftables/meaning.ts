import type { Family } from '../../cidr/address.ts';
import { complement, nothing, type RangeSet } from '../../cidr/ranges.ts';
import { NFPROTO } from '../../netlink/messages.ts';
import type { Outcome, Test } from '../rule.ts';
import { LOCAL, type Match, type Statement, statementText } from './statement.ts';

/** What a statement means for packets of one family. */
export interface Meaning {
  readonly family: Family;
  /** The addresses in a set; undefined if it holds anything else, or is not read. */
  readonly addressesIn: (set: string) => RangeSet | undefined;
}

/** The values of these keys that packets of the family have. */
const FAMILY_VALUES: Readonly<Record<string, Readonly<Record<Family, bigint>>>> = {
  'meta nfproto': { IPv4: BigInt(NFPROTO.IPv4.protocol), IPv6: BigInt(NFPROTO.IPv6.protocol) },
  'meta protocol': { IPv4: 0x0800n, IPv6: 0x86ddn },
};

/** What a statement asks of a packet. What is not understood asks something, unless packets pass it. */
export function testOf(meaning: Meaning, statement: Statement): Test {
  const { family } = meaning;
  if (statement.kind === 'match') return matchTest(meaning, statement);
  if (statement.kind !== 'other' && statement.kind !== 'chance') return undefined;
  if (statement.kind === 'other' && (statement.passes || outcomeOf(family, statement) !== undefined)) {
    const { last } = statement;
    const isOfOther = last?.name === 'nat' && last.family !== NFPROTO[family].protocol;
    return isOfOther ? nothing(family) : undefined;
  }
  return { text: statementText(family, statement) };
}

function matchTest(meaning: Meaning, match: Match): Test {
  const { family } = meaning;
  const { key, isNot = false } = match;
  const always = (answer: boolean) => (answer === isNot ? nothing(family) : undefined);
  const value = 'range' in match && match.range.first === match.range.last ? match.range.first : undefined;
  // Packets to the node itself are none of the agent's business.
  if (key === 'fib daddr type' && value === LOCAL) return always(false);
  const own = FAMILY_VALUES[key]?.[family];
  if (own !== undefined && value !== undefined) return always(value === own);
  const addresses = addressesOf(meaning, match);
  const set = addresses && isNot ? complement(addresses) : addresses;
  if (set !== undefined && / daddr$/.test(key)) return set;
  return { text: statementText(family, match), sources: set };
}

/** The addresses that a match asks for; undefined if it asks for something else. */
function addressesOf({ family, addressesIn }: Meaning, match: Match): RangeSet | undefined {
  if (!/^ip6? [sd]addr$/.test(match.key)) return undefined;
  if ('range' in match) return { family, ranges: [match.range] };
  return 'set' in match ? addressesIn(match.set) : undefined;
}

/** Expressions that decide about a packet in a form that the agent does not understand. */
const OTHER_OUTCOMES: Readonly<Record<string, Outcome>> = {
  masq: { kind: 'masquerades' },
  nat: { kind: 'masquerades' },
  notrack: { kind: 'else' },
  queue: { kind: 'else' },
  reject: { kind: 'else' },
};

const VERDICT_OUTCOMES: Readonly<Record<string, Outcome>> = {
  accept: { kind: 'ends' },
  return: { kind: 'returns' },
  drop: { kind: 'else' },
};

/** What a statement does with a packet; undefined if the next one follows. */
export function outcomeOf(family: Family, statement: Statement): Outcome | undefined {
  switch (statement.kind) {
    case 'masquerade':
      return { kind: 'masquerades' };
    case 'snat': {
      const [, to = ''] =
        /^snat to (.*?)(?: random| persistent| fully-random)*$/.exec(statementText(family, statement)) ?? [];
      return { kind: 'masquerades', to };
    }
    case 'set':
      return /^ip6? [sd]addr$/.test(statement.key) ? { kind: 'else' } : undefined;
    case 'verdict':
      if (statement.chain !== undefined)
        return { kind: statement.verdict === 'goto' ? 'goto' : 'jump', chain: statement.chain };
      return VERDICT_OUTCOMES[statement.verdict];
    case 'other': {
      const { last } = statement;
      return last && OTHER_OUTCOMES[last.name === 'unknown' ? last.type : last.name];
    }
    default:
      return undefined;
  }
}
