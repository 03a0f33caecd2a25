import type { ParseContext } from './key.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import { addressListKey, cidrListKey } from './list-key.ts';
import { booleanKey, durationKey } from './scalar-key.ts';
import type { Node } from './yaml.ts';

/**
 * The keys of a config file that are merged, in the order of documentation and outputs. How each is read, merged, shown and
 * hashed follows from this table; what it does to packets does not.
 */
export const KEYS = [
  cidrListKey('nonMasqueradeCIDRs', {
    title: "Destinations that see the pod's address",
    description:
      "Traffic to these networks keeps the pod's address. The lists of all config files are joined.",
    examples: [['10.0.0.0/8', '172.16.0.0/12', 'fd00::/8']],
    isAlwaysWritten: true,
  }),
  cidrListKey('masqueradeCIDRs', {
    title: 'Exceptions from nonMasqueradeCIDRs',
    description:
      'Traffic to these networks is masqueraded although a wider entry of nonMasqueradeCIDRs contains them. The longest prefix decides.',
    examples: [['10.20.0.0/16']],
  }),
  cidrListKey('masqueradeFromCIDRs', {
    title: 'Whose packets are masqueraded',
    description:
      'Only packets from these networks, such as the ranges of the pods, are masqueraded. Packets from elsewhere keep their address. The lists of all config files are joined. If the lists have no network of a family, that family is not limited.',
    examples: [['10.244.0.0/16', 'fd00:10:244::/56']],
    otherAgentsDo: 'masquerade packets from anywhere',
  }),
  cidrListKey('nonMasqueradeFromCIDRs', {
    title: 'Whose packets are never masqueraded',
    description:
      'Packets from these networks, such as those of pods that have routable addresses, keep their address, whatever their destination. If masqueradeFromCIDRs is set too, the longest prefix decides. The lists of all config files are joined.',
    examples: [['10.245.0.0/16', 'fd00:10:245::/56']],
    otherAgentsDo: 'masquerade packets from there like all others',
  }),
  addressListKey('masqueradeAddresses', {
    title: 'Node addresses for destinations',
    description:
      'For nodes with several addresses: masqueraded traffic to the destination leaves with the address of the node that is in the range. The longest destination decides. If the node has no address in the range, the kernel chooses one. The lists of all config files are joined. If a destination has two ranges, that is an error.',
    examples: [[{ destination: '0.0.0.0/0', address: '198.51.100.0/24' }]],
    otherAgentsDo: 'masquerade with the address that the kernel chooses',
  }),
  booleanKey('masqLinkLocal', {
    title: 'Masquerade 169.254.0.0/16',
    description:
      'Whether traffic to IPv4 link-local addresses is masqueraded. If any config file sets true, true wins.',
    isAlwaysWritten: true,
    family: 'IPv4',
  }),
  booleanKey('masqLinkLocalIPv6', {
    title: 'Masquerade fe80::/10',
    description:
      'Whether traffic to IPv6 link-local addresses is masqueraded. If any config file sets true, true wins.',
    isAlwaysWritten: true,
    family: 'IPv6',
  }),
  durationKey('resyncInterval', {
    title: 'Time between two checks',
    description:
      'How often the agent compares the config files with the kernel if no file changes. This is a Go duration from 100ms to 576h. Overrides --resync-interval. All config files that set it must agree.',
    examples: ['60s', '1m30s', '500ms'],
    logged: false,
  }),
] as const;

type AnyKey = (typeof KEYS)[number];

/** What keys have in common with others: how their values are read, merged and shown. */
export type KeyKind = AnyKey['kind'];

export type NameOf<Kind extends KeyKind> = Extract<AnyKey, { readonly kind: Kind }>['name'];

/** What one config file says: a key that it does not set is undefined, a list that it does not set is empty. */
export type ParsedKeys = { readonly [One in AnyKey as One['name']]: ReturnType<One['parse']> };

/** What all config files say together. */
export type MergedKeys = { readonly [One in AnyKey as One['name']]: ReturnType<One['merge']> };

export function parseKeys(values: ReadonlyMap<string, Node>, context: ParseContext): ParsedKeys {
  const parsed = KEYS.map((key) => [key.name, key.parse(values.get(key.name), context)]);
  return Object.fromEntries(parsed) as ParsedKeys;
}

export function mergeKeys(configs: readonly ParsedKeys[]): MergedKeys {
  return Object.fromEntries(KEYS.map((key) => [key.name, key.merge(configs)])) as MergedKeys;
}

/** The key of that name; undefined if there is none, or if it is not merged. */
export function keyNamed(name: string): AnyKey | undefined {
  return KEYS.find((key) => key.name === name);
}

export const CIDR_KEYS = KEYS.flatMap((key) => (key.kind === 'cidrs' ? [key.name] : []));

/** Lists whose items count towards `cidrLimit`. */
export const LIMITED_KEYS = KEYS.flatMap((key) =>
  key.kind === 'cidrs' || key.kind === 'addresses' ? [key.name] : [],
);

/** The key that limits the other ones of its own config file, and is not merged. */
export const CIDR_LIMIT_KEY = {
  name: 'cidrLimit',
  title: 'Maximum number of CIDRs in this config file',
  description:
    'Limits the number of CIDRs in all lists of this config file together, as a protection against mistakes. Overrides --cidr-limit for this config file, up to --cidr-limit-max, which is 1000 unless the operator of the agent raises it.',
  schema: { type: 'integer', minimum: 0, default: DEFAULT_LIMITS.cidrLimit },
  remedy: 'write a whole number such as 64, without quotes',
} as const;

export const KEY_NAMES: readonly string[] = [...KEYS.map(({ name }) => name), CIDR_LIMIT_KEY.name];
