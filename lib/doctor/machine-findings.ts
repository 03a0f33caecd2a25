import type { Host } from '../dataplane/host.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import { conntrackTable } from '../node/conntrack-table.ts';
import type { Family } from '../policy/policy.ts';
import type { Finding } from './finding.ts';

/** The files that say whether the kernel forwards packets; see ip-sysctl in the kernel's documentation. */
const FORWARDING: Readonly<Record<Family, string>> = {
  IPv4: '/proc/sys/net/ipv4/ip_forward',
  IPv6: '/proc/sys/net/ipv6/conf/all/forwarding',
};

export async function forwardingFindings(
  host: Host,
  families: readonly Family[],
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const family of families) {
    const value = (await host.readText(FORWARDING[family]))?.trim();
    if (value !== '0') continue;
    const name = FORWARDING[family].replace('/proc/sys/', '').replaceAll('/', '.');
    findings.push({
      kind: 'forwarding-off',
      family,
      message: 'the kernel does not forward packets, so pods cannot reach anything outside of the node',
      evidence: [`${name} = 0`],
      remedy: `set it: sysctl -w ${name}=1`,
    });
  }
  return findings;
}

/** From this share of its entries on, the table of connection tracking is nearly full. */
const NEARLY_FULL = 0.9;

/** The finding that connection tracking has no room for new connections, or hardly any. */
export async function conntrackFindings(host: Host): Promise<readonly Finding[]> {
  const table = await conntrackTable(host.readText);
  if (table === undefined || table.entries < NEARLY_FULL * table.most) return [];
  const { entries, most, dropped } = table;
  return [
    {
      kind: 'conntrack-full',
      message: `connection tracking holds ${entries} of ${most} connections: when it is full, new connections of pods fail`,
      evidence: [
        `nf_conntrack_count = ${entries}, nf_conntrack_max = ${most}`,
        `refused or forgotten early so far: ${dropped}`,
      ],
      remedy:
        'raise net.netfilter.nf_conntrack_max (kube-proxy sets it: conntrack.maxPerCore and conntrack.min), and find out with conntrack -L who has so many',
    },
  ];
}

/** Links that Cilium makes, also as Dataplane V2 of GKE. */
const BPF_LINKS = ['cilium_host', 'cilium_net'];

/** The links of programs that may masquerade by BPF, at hooks which packets pass after all rules. */
export async function bpfLinks(host: Host): Promise<readonly string[]> {
  const links = (await host.readText('/proc/net/dev')) ?? '';
  return BPF_LINKS.filter((name) => new RegExp(`^ *${name}:`, 'm').test(links));
}

/** The finding that BPF may masquerade packets that no rule masquerades. */
export async function bpfFindings(host: Host): Promise<readonly Finding[]> {
  const links = await bpfLinks(host);
  if (links.length === 0) return [];
  return [
    {
      kind: 'bpf-masquerade',
      message: 'BPF programs of Cilium may masquerade packets past all rules',
      evidence: links.map((name) => `link ${name}`),
      remedy:
        'look at Masquerading in the output of "cilium-dbg status"; if it says BPF, set enable-bpf-masquerade to false in cilium-config, or give Cilium the same CIDRs with enable-ip-masq-agent',
    },
  ];
}

/** The findings about capabilities that this process needs to read rules; none if /proc does not list what it has. */
export async function capabilityFindings(
  host: Host,
  backend: DataplaneOptions['backend'],
): Promise<readonly Finding[]> {
  const status = (await host.readText('/proc/self/status')) ?? '';
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  if (effective === undefined) return [];
  const mask = BigInt(`0x${effective}`);
  const missing = NEEDED[backend].filter((name) => ((mask >> CAPABILITIES[name]) & 1n) === 0n);
  if (missing.length === 0) return [];
  return [
    {
      kind: 'no-capability',
      message: `this process lacks ${missing.join(' and ')}, so it cannot read rules`,
      evidence: missing.map((name) => `${name} is not in CapEff of /proc/self/status`),
      remedy: `run it as root, in a container with the capabilities ${NEEDED[backend].join(' and ')}`,
    },
  ];
}

/** Numbers of capabilities; see capabilities(7) and linux/capability.h. */
const CAPABILITIES = { NET_ADMIN: 12n, NET_RAW: 13n } as const;

/** The capabilities that the tools of each backend need. */
const NEEDED: Readonly<Record<DataplaneOptions['backend'], readonly (keyof typeof CAPABILITIES)[]>> = {
  auto: ['NET_ADMIN', 'NET_RAW'],
  iptables: ['NET_ADMIN', 'NET_RAW'],
  nftables: ['NET_ADMIN'],
};
