import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import type { ConfigOptions } from '../../lib/config/config.ts';
import type { RuleOptions } from '../../lib/dataplane/options.ts';
import { IS_ROOT } from '../lab/user.ts';
import { createLab, FAMILIES, MODES, policyOf } from './support.ts';

interface Case {
  /** Also the name of the file with the chains that both modes must hold. */
  readonly name: string;
  readonly sources?: Readonly<Record<string, string>>;
  readonly config?: Partial<ConfigOptions>;
  readonly iptables?: Partial<RuleOptions>;
  /** The node's addresses. */
  readonly own?: readonly string[];
}

const CASES: readonly Case[] = [
  { name: 'defaults' },
  { name: 'all-reserved-ranges', config: { noMasqAllReservedRanges: true } },
  {
    name: 'link-local-masqueraded',
    sources: {
      'ip-masq-operator': 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqLinkLocal: true\nmasqLinkLocalIPv6: true\n',
    },
  },
  {
    name: 'several-sources-with-duplicates',
    sources: {
      'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.240.0.0/16, 10.0.0.0/8, fd00::/8]\n',
      'ip-masq-operator': 'nonMasqueradeCIDRs: [10.0.0.0/8, 192.168.0.0/16, "FD00:0::/8"]\n',
    },
  },
  {
    name: 'ipv6',
    sources: {
      'ip-masq-operator': 'nonMasqueradeCIDRs: ["2001:DB8::/32", "64:ff9b::10.0.0.0/104", "fd00::1/128"]\n',
    },
  },
  {
    name: 'exceptions',
    sources: {
      'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]\n',
      'ip-masq-operator':
        'nonMasqueradeCIDRs: [10.20.30.0/24]\nmasqueradeCIDRs: [10.20.0.0/16, 169.254.169.254/32, "fd00:20::/32"]\n',
    },
  },
  {
    name: 'to-ports',
    sources: { 'ip-masq-operator': 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.20.0.0/16]\n' },
    iptables: {
      toPorts: [
        { first: 1024, last: 29_999 },
        { first: 32_768, last: 65_535 },
        { first: 80, last: 80 },
      ],
    },
  },
  {
    name: 'from-ranges',
    sources: {
      'ip-masq-cloud': 'masqueradeFromCIDRs: [10.244.0.0/16, 10.244.3.0/24, "fd00:10:244::/56"]\n',
      'ip-masq-operator':
        'nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]\nmasqueradeFromCIDRs: [192.0.2.7/32, "2001:db8::/64"]\n',
    },
  },
  {
    name: 'addresses',
    sources: {
      'ip-masq-operator': `
nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]
masqueradeCIDRs: [10.20.0.0/16, "fd00:20::/32"]
masqueradeAddresses:
  - {destination: 10.0.0.0/8, address: 198.51.100.0/24}
  - {destination: 0.0.0.0/0, address: 192.0.2.0/24}
  - {destination: 203.0.113.7/32, address: 198.51.100.0/24}
  - {destination: 203.0.113.0/24, address: 198.18.0.0/24}
  - {destination: "2001:db8:1::/48", address: "2001:db8:2::/64"}
`,
    },
    iptables: { toPorts: [{ first: 1024, last: 29_999 }] },
    own: ['198.51.100.9', '198.51.100.8', '192.0.2.1', '2001:db8:2::1'],
  },
  {
    name: 'random-fully-of-some-protocols',
    sources: { 'ip-masq-operator': 'masqueradeCIDRs: [10.20.0.0/16]\n' },
    iptables: { randomFully: ['tcp', 'sctp'] },
  },
  { name: 'random-fully-off', iptables: { randomFully: false } },
  {
    name: 'everything-inside',
    sources: { 'ip-masq-operator': 'nonMasqueradeCIDRs: [0.0.0.0/0, "::/0"]\n' },
  },
];

describe('the chain that the kernel shows', () => {
  for (const { name, sources = {}, config = {}, iptables = {}, own = [] } of CASES) {
    for (const mode of MODES) {
      it(`is that of the file of its case: ${name}, ${mode}`, async () => {
        const chains: string[] = [];
        for (const family of FAMILIES) {
          await using lab = await createLab(IS_ROOT ? 'netns' : 'userns', mode, family, iptables);
          await lab.sync(policyOf(family, sources, config, own));
          const names = [
            'POSTROUTING',
            'IP-MASQ-AGENT',
            ...(name === 'from-ranges' ? ['IP-MASQ-AGENT-FROM'] : []),
          ];
          const listings = [];
          for (const chain of names) listings.push(await lab.iptables('-S', chain));
          chains.push(`# ${family}\n${listings.join('')}`);
        }
        await assertGolden(new URL(`golden/${name}.txt`, import.meta.url), chains.join(''));
      });
    }
  }
});

/** `UPDATE_GOLDEN=1` writes what is there now; the difference is then to be read before it is committed. */
async function assertGolden(file: URL, actual: string): Promise<void> {
  if (process.env['UPDATE_GOLDEN'] !== undefined) await writeFile(file, actual);
  assert.equal(actual, await readFile(file, 'utf8'));
}
