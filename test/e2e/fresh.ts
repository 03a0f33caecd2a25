import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import type { Box } from '../lab/box.ts';
import type { Way } from '../lab/edits.ts';
import { empty, kernelState } from '../lab/kernel-state.ts';
import { succeed } from '../lab/run.ts';
import { createNode } from './support.ts';

/** The name of the one config file of random configs. */
export const CONFIG_FILE = 'ip-masq-random';

/** How the agent runs, without what decides how it reads and writes. */
export interface Setting {
  readonly way: Way;
  readonly config: string;
  readonly flags: readonly string[];
  /** The node's addresses, on loopback. */
  readonly addresses: readonly string[];
}

/** What a first sync in an empty kernel makes of each setting. */
export interface FreshStates extends AsyncDisposable {
  of(setting: Setting): Promise<string>;
}

export const WAY_FLAGS: Readonly<Record<Way, readonly string[]>> = {
  nftables: ['--backend=nftables'],
  'iptables-nft': ['--backend=iptables', '--iptables-mode=nft'],
  'iptables-legacy': ['--backend=iptables', '--iptables-mode=legacy'],
};

/**
 * Runs the agent once for each setting that it is asked for, in a namespace that it empties before.
 *
 * @param ways what is read of all that is then in the kernel; only where the agent's rules are, if there is none
 */
export async function createFreshStates(...ways: readonly Way[]): Promise<FreshStates> {
  const node = await createNode();
  const known = new Map<string, string>();
  let last: Promise<unknown> = Promise.resolve();
  const make = async ({ way, config, flags, addresses }: Setting) => {
    await empty(node.box);
    await setAddresses(node.box, addresses);
    await writeFile(join(node.configDir, CONFIG_FILE), config);
    const { code, stderr } = await node.agent('--once', ...WAY_FLAGS[way], ...flags);
    assert.equal(code, 0, stderr);
    return (await kernelState(node.box, ...(ways.length > 0 ? ways : [way]))).own;
  };
  return {
    of: async (setting) => {
      const key = JSON.stringify(setting);
      const made = last.then(async () => known.get(key) ?? (await make(setting)));
      last = made.catch(() => {});
      known.set(key, await made);
      return await made;
    },
    [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
  };
}

/** Gives loopback these addresses, and takes all others but its own. */
export async function setAddresses(box: Box, addresses: readonly string[]): Promise<void> {
  const lines = [
    'address flush dev lo scope global',
    ...addresses.map((cidr) => `address add ${cidr} dev lo`),
  ];
  await succeed(box.run('ip', ['-force', '-batch', '-'], { input: `${lines.join('\n')}\n` }));
}

/** Prefixes whose ranges nest, touch, and end at the highest or begin at the lowest address. */
const PREFIXES = [
  ...'10.0.0.0/8 224.0.0.0/4 128.0.0.0/1 255.255.255.255/32 240.0.0.0/4 0.0.0.0/1 0.0.0.0/0'.split(' '),
  ...'10.1.0.0/16 10.1.2.0/24 11.0.0.0/8 169.254.0.0/16 172.16.0.0/12'.split(' '),
  ...'ff00::/8 8000::/1 ::/1 ::/0 fd00::/8 fd00:1::/32 fe80::/10'.split(' '),
  ...'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128'.split(' '),
];

/** Addresses that the node has, and one range in which it has none. */
export const NODE_ADDRESSES = ['192.0.2.1/32', '192.0.2.130/32', '2001:db8::1/128'] as const;
const RANGES = ['192.0.2.0/25', '192.0.2.128/25', '2001:db8::/64', '198.51.100.0/24'] as const;

/** A config file. Prefixes of IPv6 are valid only with --enable-ipv6. */
export function configs(withIPv6 = true): fc.Arbitrary<string> {
  const prefixes = PREFIXES.filter((prefix) => withIPv6 || !prefix.includes(':'));
  const some = (maxLength: number) => fc.subarray(prefixes, { maxLength });
  return fc
    .record({
      nonMasqueradeCIDRs: some(8),
      masqueradeCIDRs: some(3),
      masqueradeFromCIDRs: fc.oneof(fc.constant<string[]>([]), some(4)),
      nonMasqueradeFromCIDRs: fc.oneof(fc.constant<string[]>([]), some(4)),
      masqueradeAddresses: fc.uniqueArray(
        fc.record({ destination: fc.constantFrom(...prefixes), address: fc.constantFrom(...RANGES) }),
        { maxLength: 3, selector: ({ destination }) => destination },
      ),
      masqLinkLocal: fc.boolean(),
    })
    .map((configFile) =>
      JSON.stringify({
        ...configFile,
        // One prefix with opposite verdicts is an error, as are a destination and an address of two families.
        masqueradeCIDRs: configFile.masqueradeCIDRs.filter(
          (cidr) => !configFile.nonMasqueradeCIDRs.includes(cidr),
        ),
        nonMasqueradeFromCIDRs: configFile.nonMasqueradeFromCIDRs.filter(
          (cidr) => !configFile.masqueradeFromCIDRs.includes(cidr),
        ),
        masqueradeAddresses: configFile.masqueradeAddresses.filter(
          ({ destination, address }) => destination.includes(':') === address.includes(':'),
        ),
      }),
    );
}
