import type { MergedConfig } from '../config/config.ts';
import type { Host } from '../dataplane/host.ts';
import { noAnswer } from '../dataplane/netlink.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import { TAKEN_PORTS, takenAdvice } from '../dataplane/ports.ts';
import { allLinks } from '../netlink/links.ts';
import { conntrackTable } from '../node/conntrack-table.ts';
import { unmeantSources } from '../node/masquerade-address.ts';
import { forwardingLinks } from '../node/pod-routes.ts';
import type { Family } from '../policy/policy.ts';
import { truncatedText } from '../text/words.ts';
import type { Finding } from './finding.ts';

export async function forwardingFindings(
  host: Host,
  families: readonly Family[],
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const family of families) {
    const known = host.netlink && (await forwardingLinks(family).catch(noAnswer));
    // Where no pods are known, as on a node that has none yet, what the links of new ones get.
    const names =
      known === undefined || known.pods.length === 0 ? ['all'] : [...known.pods, ...known.uplinks];
    const { links, off, mend } =
      family === 'IPv4' ? await notByIPv4(host, names) : await notByIPv6(host, names, known?.uplinks);
    if (links.length === 0) continue;
    const which = links.includes('all') ? '' : ` that come in by ${truncatedText(links, 5, String)}`;
    const first =
      family === 'IPv6' && known === undefined
        ? 'first set accept_ra=2 on a link that gets its default route by router advertisement; then '
        : '';
    findings.push({
      kind: 'forwarding-off',
      family,
      message: `the kernel does not forward packets${which}: pods cannot reach other networks, or get no answer from there`,
      evidence: off.map((name) => `${name} = 0`),
      remedy: `${first}set ${mend.join(', ')} in /etc/sysctl.d of the node, and load it`,
    });
  }
  return findings;
}

/** Links by which packets come in that the kernel does not forward, the settings that are off, and what to set. */
interface NotForwarded {
  readonly links: readonly string[];
  readonly off: readonly string[];
  readonly mend: readonly string[];
}

/** Whether it forwards, the kernel asks the link by which a packet comes in: that of pods or, for the answers, that to the outside. */
async function notByIPv4(host: Host, names: readonly string[]): Promise<NotForwarded> {
  const setting = (name: string) => settingOf('ipv4', name, 'forwarding');
  const areOff = (some: readonly string[]) => filter(some, (name) => hasValue(host, setting(name), '0'));
  const links = await areOff(names);
  const off = links.map(setting);
  // Writing it again changes no link.
  const isAll = links.length === names.length && (await areOff(['all'])).length > 0;
  if (isAll) return { links, off: ['net.ipv4.ip_forward'], mend: ['net.ipv4.ip_forward=1'] };
  return { links, off, mend: [...links, ...(await areOff(['default']))].map((name) => `${setting(name)}=1`) };
}

/** The kernel asks `all`, or since Linux 6.17 `force_forwarding` of the link. */
async function notByIPv6(
  host: Host,
  names: readonly string[],
  uplinks: readonly string[] = [],
): Promise<NotForwarded> {
  const all = settingOf('ipv6', 'all', 'forwarding');
  const force = (name: string) => settingOf('ipv6', name, 'force_forwarding');
  if (!(await hasValue(host, all, '0'))) return { links: [], off: [], mend: [] };
  const links = await filter(names, async (name) => !(await hasValue(host, force(name), '1')));
  if (links.length < names.length) {
    const forced = links.map(force);
    return { links, off: [all, ...forced], mend: forced.map((name) => `${name}=1`) };
  }
  // With forwarding, the kernel forgets a default route that a router has advertised, unless this is 2.
  const accept = uplinks.map((name) => settingOf('ipv6', name, 'accept_ra'));
  const first = await filter(accept, (name) => hasValue(host, name, '1'));
  return { links, off: [all], mend: [...first.map((name) => `${name}=2`), `${all}=1`] };
}

/** The name of a setting of a link for sysctl(8), which takes a slash for a dot in the name of a link. */
function settingOf(family: 'ipv4' | 'ipv6', link: string, name: string): string {
  return `net.${family}.conf.${link.replaceAll('.', '/')}.${name}`;
}

async function hasValue(host: Host, setting: string, value: string): Promise<boolean> {
  const path = setting.replace(/[./]/g, (mark) => (mark === '.' ? '/' : '.'));
  return (await host.readText(`/proc/sys/${path}`))?.trim() === value;
}

async function filter<Item>(
  items: readonly Item[],
  isWanted: (item: Item) => Promise<boolean>,
): Promise<readonly Item[]> {
  const wanted = await Promise.all(items.map(isWanted));
  return items.filter((_, index) => wanted[index]);
}

/** The findings about the address of masqueraded packets to the outside, in families for which no config file chooses it. */
export async function uplinkFindings(
  host: Host,
  config: MergedConfig | undefined,
  families: readonly Family[],
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const chosen = (config?.masqueradeAddresses ?? []).map(({ value }) => value.destination.text);
  for (const family of families) {
    const everything = family === 'IPv4' ? '0.0.0.0/0' : '::/0';
    if (host.netlink === undefined || chosen.includes(everything)) continue;
    const messages = (await unmeantSources(family).catch(noAnswer)) ?? [];
    const remedy = `give the link an address of global scope that others have a route to, or choose one of the node's: masqueradeAddresses with the destination ${everything}; masqueradeFromCIDRs with the ranges of pods leaves alone what the node itself sends`;
    for (const message of messages)
      findings.push({ kind: 'uplink-address', family, message, evidence: [], remedy });
  }
  return findings;
}

/** The findings about ports of --to-ports that are NodePorts, or ports of tunnels that the node has. */
export async function portFindings(
  host: Host,
  { toPorts }: Pick<DataplaneOptions, 'toPorts'>,
): Promise<readonly Finding[]> {
  if (toPorts.length === 0) return [];
  const links = host.netlink && (await allLinks().catch(noAnswer));
  const kinds = new Set(links?.map(({ kind }) => kind));
  const taken = TAKEN_PORTS.filter(
    ({ link }) => link === undefined || links === undefined || kinds.has(link),
  );
  const advice = takenAdvice(toPorts, taken);
  return advice === undefined ? [] : [{ kind: 'taken-ports', ...advice, evidence: [] }];
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
