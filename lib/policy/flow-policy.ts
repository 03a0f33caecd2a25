import { partitionPoint } from '../text/partition-point.ts';
import { flatten } from './flatten.ts';
import { type Address, type Entry, type Policy, verdictElsewhere } from './policy.ts';

/** What is asked for a packet: the verdict, and perhaps the address that it leaves with. */
type Asked = Pick<Entry, 'verdict' | 'as'>;

/**
 * What is asked for packets from one address to another of the same family. Undefined if masqueradeFromCIDRs does not list
 * the source: the agent masquerades no such packets, but another program may, so that a flow with any verdict is as it
 * should be.
 */
export type FlowPolicy = (source: Address, destination: Address) => Asked | undefined;

const [MASQUERADED, NOT_MASQUERADED]: readonly [Asked, Asked] = [
  { verdict: 'masqueraded' },
  { verdict: 'not_masqueraded' },
];

/** What these policies ask for. A family without a policy has no rules of the agent: all its packets are not masqueraded. */
export function flowPolicy(policies: readonly Policy[]): FlowPolicy {
  const deciders = new Map(
    policies.map(({ family, from, entries }) => [
      family,
      {
        decide: searcher(entries),
        decideSource: from.length === 0 ? undefined : searcher(from),
        elsewhere: verdictElsewhere({ from }),
      },
    ]),
  );
  return (source, destination) => {
    const own = deciders.get(destination.family);
    if (own === undefined) return NOT_MASQUERADED;
    const from = own.decideSource?.(source.value);
    if (from?.verdict === 'not_masqueraded') return from;
    if (from === undefined && own.elsewhere === 'not_masqueraded') return undefined;
    return own.decide(destination.value) ?? MASQUERADED;
  };
}

/** A function that finds the entry that decides for an address: for very many of them, one search is faster than one for each length. */
function searcher(entries: readonly Entry[]): (value: bigint) => Entry | undefined {
  const segments = flatten({ entries });
  return (value) => {
    const segment = segments[partitionPoint(segments, ({ last }) => last < value)];
    return segment !== undefined && segment.first <= value ? segment.entry : undefined;
  };
}
