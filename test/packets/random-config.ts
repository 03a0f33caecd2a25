import { ADDRESS_BITS, type Family, parseAddress } from '../../lib/cidr/address.ts';
import { type Prefix, parsePrefix, prefixAt, truncate } from '../../lib/cidr/prefix.ts';
import type { MergedConfig } from '../../lib/config/config.ts';
import { KEYS } from '../../lib/config/keys.ts';
import { DEFAULT_LIMITS } from '../../lib/config/limits.ts';
import { mergeConfigFiles } from '../../lib/config/load.ts';
import { POD, POD_NETWORK, UPLINK_NETWORK } from '../lab/network.ts';
import type { Random } from './random.ts';

/** A config that is valid, and the config files that it is merged from. */
export interface RandomConfig {
  readonly config: MergedConfig;
  /** Texts by name. */
  readonly configFiles: Readonly<Record<string, string>>;
}

/** What a random config file says, in the words of the config. */
interface RandomConfigFile {
  readonly nonMasqueradeCIDRs: string[];
  readonly masqueradeCIDRs: string[];
  readonly masqueradeFromCIDRs: string[];
  readonly nonMasqueradeFromCIDRs: string[];
  readonly masqueradeAddresses: { readonly destination: string; readonly address: string }[];
}

/** Where prefixes cluster: so few places that most prefixes lie in, around or beside others. */
const PLACES: Readonly<Record<Family, readonly [string, ...string[]]>> = {
  IPv4: [
    '10.0.0.0/8',
    '10.244.0.0/16',
    '169.254.0.0/16',
    '172.16.0.0/12',
    '192.0.0.0/16',
    '128.0.0.0/1',
    '255.255.255.254/31',
  ],
  IPv6: ['fd00::/8', 'fd00:244::/32', 'fe80::/10', '2001:db8::/32', '2000::/3', '8000::/1', '64:ff9b::/96'],
};

/** Ranges with one address of the node, with the other one, with both, and with none. */
const ADDRESS_RANGES: Readonly<Record<Family, readonly [string, ...string[]]>> = {
  IPv4: [UPLINK_NETWORK.IPv4, POD_NETWORK.IPv4, '0.0.0.0/0', '198.51.100.0/24'],
  IPv6: [UPLINK_NETWORK.IPv6, POD_NETWORK.IPv6, '::/0', 'fd00:9::/64'],
};

const NAMES = ['ip-masq-a', 'ip-masq-b', 'ip-masq-c'] as const;
const MOST_ENTRIES = 12;

/** Makes config files up until they are valid together, as a rule at the first attempt. */
export function randomConfig(random: Random): RandomConfig {
  for (;;) {
    const configFiles = randomConfigFiles(random);
    const { config } = mergeConfigFiles(
      Object.entries(configFiles).map(([name, text]) => ({ name, text })),
      {
        ...DEFAULT_LIMITS,
        families: ['IPv4', 'IPv6'],
        strict: false,
        noMasqAllReservedRanges: random.chance(0.5),
        requiredFiles: [],
        checkVerdicts: () => [],
      },
    );
    if (config !== undefined) return { config, configFiles };
  }
}

const FLAG_KEYS = KEYS.flatMap((key) => (key.kind === 'flag' ? [key.name] : []));

/** None now and then: the defaults apply then. */
function randomConfigFiles(random: Random): Readonly<Record<string, string>> {
  const count = random.chance(0.03) ? 0 : random.int(1, NAMES.length);
  const configFiles = NAMES.slice(0, count).map(
    (): RandomConfigFile => ({
      nonMasqueradeCIDRs: [],
      masqueradeCIDRs: [],
      masqueradeFromCIDRs: [],
      nonMasqueradeFromCIDRs: [],
      masqueradeAddresses: [],
      ...Object.fromEntries(
        FLAG_KEYS.flatMap((name) => (random.chance(0.3) ? [[name, random.chance(0.7)]] : [])),
      ),
    }),
  );
  const [first, ...others] = configFiles;
  if (first === undefined) return {};
  for (const family of ['IPv4', 'IPv6'] as const) {
    /** One prefix with opposite verdicts would be an error. */
    const lists = new Map<string, 'nonMasqueradeCIDRs' | 'masqueradeCIDRs'>();
    for (const { text } of randomPrefixes(random, family)) {
      const list = lists.get(text) ?? (random.chance(0.5) ? 'nonMasqueradeCIDRs' : 'masqueradeCIDRs');
      lists.set(text, list);
      random.pick([first, ...others])[list].push(text);
    }
    const ranges = [...new Set(randomRanges(random, family))];
    const list = random.pick(['masqueradeFromCIDRs', 'nonMasqueradeFromCIDRs', undefined] as const);
    for (const text of ranges) {
      const chosen = list ?? random.pick(['masqueradeFromCIDRs', 'nonMasqueradeFromCIDRs'] as const);
      random.pick([first, ...others])[chosen].push(text);
    }
    const destinations = random.chance(0.5) ? [] : randomPrefixes(random, family);
    for (const destination of new Set(destinations.map(({ text }) => text)))
      random
        .pick([first, ...others])
        .masqueradeAddresses.push({ destination, address: random.pick(ADDRESS_RANGES[family]) });
  }
  return Object.fromEntries(
    configFiles.map((configFile, index) => [NAMES[index], JSON.stringify(configFile)]),
  );
}

/** Of sources: mostly none, else ranges of which some hold the pod. */
function randomRanges(random: Random, family: Family): readonly string[] {
  const count = random.chance(0.6) ? 0 : random.int(1, 3);
  const pod = parseAddress(POD[family]);
  if (pod === undefined) throw new Error('no address of the pod');
  return Array.from({ length: count }, () => {
    const length = random.int(0, ADDRESS_BITS[family]);
    const around = prefixAt(family, truncate(pod.value, length, family), length);
    return (random.chance(0.4) ? around : relative(random, around)).text;
  });
}

/** Each is made from one before it, so that they nest, touch and repeat. */
function randomPrefixes(random: Random, family: Family): readonly Prefix[] {
  const count = random.chance(0.1) ? 0 : random.int(1, MOST_ENTRIES);
  const prefixes: Prefix[] = [];
  while (prefixes.length < count) {
    const [first, ...others] = prefixes;
    const from =
      first === undefined || random.chance(0.15) ? place(random, family) : random.pick([first, ...others]);
    prefixes.push(relative(random, from));
  }
  return prefixes;
}

function place(random: Random, family: Family): Prefix {
  const text = random.pick(PLACES[family]);
  const parsed = parsePrefix(text);
  if ('error' in parsed) throw new Error(`${text} ${parsed.error.message}`);
  return parsed.prefix;
}

/** A prefix somehow akin to this one: itself, around it, inside it, beside it, at its edge, or everything. */
function relative(random: Random, from: Prefix): Prefix {
  const { family, address, length } = from;
  const most = ADDRESS_BITS[family];
  const at = (value: bigint, bits: number) => prefixAt(family, truncate(value, bits, family), bits);
  const longer = Math.min(most, length + random.int(1, random.pick([1, 4, 16, most])));
  const inside = address | random.bits(most - length);
  const step = 1n << BigInt(most - length);
  return random.pick([
    () => from,
    () => at(address, Math.max(0, length - random.int(1, 8))),
    () => at(inside, longer),
    () => at(inside, longer),
    () => at(inside, longer),
    () => at(inside, most),
    // Beside everything there is nothing.
    () => at(length === 0 ? 0n : address ^ step, length),
    () => at(address, longer),
    () => at(address | (step - 1n), longer),
    () => at(address, random.chance(0.2) ? 0 : longer),
  ])();
}
