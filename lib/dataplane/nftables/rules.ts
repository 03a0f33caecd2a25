import { type Address, type Family, formatAddress } from '../../cidr/address.ts';
import type { Prefix } from '../../cidr/prefix.ts';
import { formatRange, type Range, rangeOf } from '../../cidr/ranges.ts';
import type { UserData } from '../../netlink/user-data.ts';
import type { Verdict } from '../../policy/policy.ts';
import { COMMENT_START } from '../dataplane.ts';
import type { InvalidPackets } from '../options.ts';
import { type PortOptions, portRules } from '../ports.ts';
import {
  COUNTER,
  DROP,
  inSet,
  isLocal,
  isProtocol,
  NOT_TRACKED,
  RETURN,
  type RulePart,
  someOf,
  toPrefix,
  translate,
} from './parts.ts';

/** What a rule of the agent does with packets, as far as it decides about masquerading. */
export type Effect =
  /** It leaves alone what the node itself sends or gets. */
  | { readonly kind: 'of the node' }
  /** It leaves packets alone because of their source, which is in the set or is not. */
  | { readonly kind: 'source left alone'; readonly set: string; readonly isNot: boolean }
  | { readonly kind: 'destination left alone'; readonly set: string }
  | {
      readonly kind: 'masquerades';
      readonly destinations: Range;
      /** The address that packets leave with; undefined for one of the link. */
      readonly as: string | undefined;
      /** Whether the next rule decides about some of these packets. */
      readonly isPartial: boolean;
    }
  | { readonly kind: 'invalid' };

/** A rule of the agent: its text, without the comment, and its expressions are made together. */
export interface OwnRule extends RulePart, UserData {
  readonly effect: Effect;
}

/** What the rules of a family depend on, beside flags. */
export interface RuleInputs {
  readonly family: Family;
  /** The name of the set of destinations that are left alone. */
  readonly destinations: string;
  /** The set of the sources whose packets are looked at or, if it is not, of those that are left alone. */
  readonly sources?: { readonly set: string; readonly areAllowed: boolean } | undefined;
  /** The destinations with an address of their own, the longest prefix first. */
  readonly addresses: readonly {
    readonly prefix: Omit<Prefix, 'text'>;
    /** Undefined to masquerade as for all other destinations. */
    readonly address: Address | undefined;
    readonly why?: string;
  }[];
}

/** The rules of the chain of type nat, in the order in which a packet meets them. */
export function natRules(inputs: RuleInputs, options: PortOptions): readonly OwnRule[] {
  const { family, destinations, sources, addresses } = inputs;
  const returns = (why: string, effect: Effect, ...parts: readonly RulePart[]) =>
    rule(why, effect, ...parts, RETURN);
  return [
    returns('addresses of the node itself', { kind: 'of the node' }, isLocal('fib daddr type')),
    ...(sources === undefined
      ? []
      : [
          returns(
            `packets from ${sources.areAllowed ? 'elsewhere' : 'here'} are not masqueraded`,
            { kind: 'source left alone', set: sources.set, isNot: sources.areAllowed },
            inSet(family, 'source', sources.set, sources.areAllowed),
            COUNTER,
          ),
        ]),
    returns(
      'left alone by the config',
      { kind: 'destination left alone', set: destinations },
      inSet(family, 'destination', destinations),
    ),
    ...addresses.flatMap(({ prefix, address, why = '' }) => masquerade(prefix, address, options, why)),
    ...masquerade({ family, address: 0n, length: 0 }, undefined, options, 'everything else is masqueraded'),
  ];
}

/** The rules that masquerade, as `portRules` says; with that address or, without one, all but the node's own connections. */
function masquerade(
  to: Omit<Prefix, 'text'>,
  address: Address | undefined,
  options: PortOptions,
  why: string,
): readonly OwnRule[] {
  const { family } = to;
  const destinations = rangeOf(to);
  const asked = toPrefix(to, formatRange(family, destinations));
  const rules = portRules(options).map(({ protocol, share, isRandom }) => {
    const isSome = share !== undefined && share.size !== share.left;
    const parts = [
      ...(protocol === undefined ? [] : [isProtocol(protocol)]),
      ...(isSome ? [someOf(share)] : []),
    ];
    const effect: Effect = {
      kind: 'masquerades',
      destinations,
      as: address && formatAddress(address),
      isPartial: parts.length > 0,
    };
    const translation = translate(family, { address, ports: share?.range, isRandom });
    return rule(why, effect, ...asked, ...parts, COUNTER, translation);
  });
  if (address !== undefined) return rules;
  /**
   * Packets whose source is an address of the link by which they leave. Masquerading would only change their ports, and so reset
   * connections that began before the rules. Any local source would be too much: what DNAT or a mark sends out by another link.
   */
  const ofNode = [...asked, isLocal('fib saddr . oif type'), RETURN];
  return [rule('the node itself, from an address of the link', { kind: 'of the node' }, ...ofNode), ...rules];
}

/**
 * The rule for packets that conntrack assigns to no connection, such as a FIN after its entry has expired, or does not track: the
 * kernel takes them past every chain of type nat, so they leave with the address of the pod (nf_nat_inet_fn in nf_nat_core.c).
 * One rule, because a negated lookup does not count in the element that it finds (nft_lookup.c).
 */
export function invalidRule(
  { family, destinations, sources }: RuleInputs,
  what: Exclude<InvalidPackets, 'off'>,
): OwnRule {
  return rule(
    'would leave with the address of a pod',
    { kind: 'invalid' },
    NOT_TRACKED,
    // The kernel never tracks neighbour discovery, which meets this chain between ports of a bridge too (bridge-nf-call-ip6tables).
    ...(family === 'IPv6' ? [isProtocol('ipv6-icmp', true)] : []),
    isLocal('fib saddr type', true),
    isLocal('fib daddr type', true),
    ...(sources === undefined ? [] : [inSet(family, 'source', sources.set, !sources.areAllowed)]),
    inSet(family, 'destination', destinations, true),
    COUNTER,
    ...(what === 'drop' ? [DROP] : []),
  );
}

function rule(why: string, effect: Effect, ...parts: readonly RulePart[]): OwnRule {
  return {
    text: parts.map(({ text }) => text).join(' '),
    expressions: parts.flatMap(({ expressions }) => expressions),
    comment: `${COMMENT_START}${why}`,
    effect,
  };
}

/** What a rule that counts counts. */
export function countedAs({ kind }: Effect): Verdict | 'invalid' {
  if (kind === 'invalid') return 'invalid';
  return kind === 'masquerades' ? 'masqueraded' : 'not_masqueraded';
}
