import { FAMILY_NAMES } from '../../lib/cidr/address.ts';
import { covers, type Prefix, wayText } from '../../lib/cidr/prefix.ts';
import { DEFAULT_LIMITS } from '../../lib/config/limits.ts';
import { DEFAULT_CHAIN, INVALID_PACKETS } from '../../lib/dataplane/options.ts';
import { UsageError } from './exit.ts';
import {
  authors,
  bindAddress,
  boolean,
  bytes,
  chain,
  choice,
  count,
  interval,
  path,
  ports,
  promises,
  protocols,
  sourceNames,
} from './flag-kinds.ts';
import { flag, type Values } from './flag-table.ts';

/**
 * The flags of the daemon. Every command accepts all of them, so that the arguments of a DaemonSet work with each
 * command. Parser, help, completion and documentation use this table.
 */
export const FLAGS = {
  'config-dir': flag(path, '/etc/config', 'directory whose files ip-masq-* are the sources'),
  'masq-chain': flag(
    chain,
    DEFAULT_CHAIN,
    'name of the chain in nat that holds the rules of iptables; with --backend=auto, another name asks for iptables',
  ),
  'nomasq-all-reserved-ranges': flag(
    boolean,
    'false',
    'if there is no source, also leave the other ranges that RFCs reserve unmasqueraded, not only RFC 1918',
  ),
  'enable-ipv6': flag(boolean, 'false', 'keep rules for IPv6 too'),
  'enable-ipv4': flag(
    boolean,
    'true',
    'keep rules for IPv4; false, with --enable-ipv6, in a cluster of IPv6 alone: an IPv4 CIDR is then an error',
  ),
  'resync-interval': flag(
    interval,
    '60',
    'time between two checks of the sources and the kernel if nothing changes: seconds, or a Go duration; resyncInterval in a source overrides it',
  ),
  'random-fully': flag(
    protocols,
    'true',
    'choose the source ports of masqueraded connections at random; only for some of tcp, udp and sctp, such as tcp,sctp: connections of other protocols keep their ports if they can, as STUN and WebRTC over UDP need it',
  ),
  'to-ports': flag(
    ports,
    '',
    'source ports for masqueraded TCP, UDP and SCTP connections, such as 1024-29999,32768-65535; every port is equally likely',
  ),
  backend: flag(
    choice('auto', 'iptables', 'nftables'),
    'auto',
    "where the kernel keeps the rules: an iptables chain, or an nftables table, in which the cost of a packet does not depend on the number of CIDRs; auto: where the agent's rules are; else where kube-proxy's are; else iptables, or nftables if the kernel lacks what iptables needs",
  ),
  'iptables-mode': flag(
    choice('auto', 'nft', 'legacy'),
    'auto',
    'kernel API that iptables uses; auto finds the one that kubelet uses; with --backend=auto, another value asks for iptables',
  ),
  'invalid-packets': flag(
    choice(...INVALID_PACKETS),
    'count',
    'packets that connection tracking refuses, as after an entry has expired, and that would leave with the address of a pod; count: in a metric; drop: drop them too, for which masqueradeFromCIDRs must list the ranges of pods; off: no rules for them; only in nftables',
  ),
  netlink: flag(
    choice('auto', 'off'),
    'auto',
    'auto: read nf_tables over a netlink socket, which repairs drift within milliseconds, and use the tools where that does not work; off: use only the tools',
  ),
  'stale-flows': flag(
    choice('report', 'delete-udp', 'off'),
    'report',
    'connections that keep an old verdict after the start or a change; report: in the log and a metric; delete-udp: also delete those of UDP from conntrack, so that their next packets get the new verdict; off: do not read conntrack, not for ports in use either; needs netlink, and is off in legacy mode',
  ),
  'cidr-limit': flag(
    count,
    String(DEFAULT_LIMITS.cidrLimit),
    'maximum number of CIDRs in a source that does not set cidrLimit',
  ),
  'cidr-limit-max': flag(
    count,
    String(DEFAULT_LIMITS.cidrLimitMax),
    'maximum number of CIDRs in any source, and in all sources together; no cidrLimit may exceed it; more need more memory',
  ),
  'config-limit': flag(
    bytes,
    `${DEFAULT_LIMITS.configLimit / 2 ** 20}Mi`,
    'maximum size of all sources together, such as 512Ki or 2Mi',
  ),
  strict: flag(boolean, 'false', 'treat warnings as errors'),
  'require-source': flag(
    sourceNames,
    '',
    'names of sources that must be there, such as ip-masq-operator; if one is missing, that is an error in the config',
  ),
  'must-not-masquerade': flag(
    promises,
    '',
    'promise: if the config masquerades any address of these CIDRs, that is an error; for ranges of pods, nodes and peered networks, not of Services. `10.0.0.0/8 from 10.244.0.0/16` is about packets from one range',
  ),
  'must-masquerade': flag(
    promises,
    '',
    'promise: if the config does not masquerade an address of these CIDRs, that is an error. `8.0.0.0/8 from 10.244.0.0/16` is about packets from one range',
  ),
  'on-invalid-config': flag(
    choice('exit', 'keep'),
    'exit',
    'exit: end with exit code 3; keep: report it, and keep the last valid config or the rules of an earlier run. A start without either, and --once, always end',
  ),
  'accept-foreign': flag(
    authors,
    '',
    'authors of foreign rules that you know and accept, such as docker: the agent and doctor do not warn about their rules',
  ),
  'sync-timeout': flag(
    interval,
    '30s',
    'how long to retry while the kernel or the xtables lock is busy, and how long one tool may run',
  ),
  once: flag(boolean, 'false', 'sync once and exit'),
  'cleanup-on-exit': flag(boolean, 'false', 'remove the rules when SIGTERM or SIGINT ends the agent'),
  'metrics-bind-address': flag(
    bindAddress,
    '127.0.0.1:9614',
    'address of the server for metrics, probes and status pages; empty for no server',
  ),
  'scrape-bind-address': flag(
    bindAddress,
    '',
    'address of a second server that serves only /metrics, for a Prometheus on another node; empty for no server',
  ),
  'log-format': flag(
    choice('auto', 'text', 'json'),
    'auto',
    'text for people, json for machines; auto is text if standard error is a terminal, else json',
  ),
  v: flag(
    count,
    '2',
    'verbosity as in klog: 3 also logs syncs that change nothing, 5 also logs the input of iptables-restore or nft',
  ),
  'termination-log': flag(
    path,
    '/dev/termination-log',
    'file for the reason of a failure; written only if it exists',
  ),
} as const;

export type FlagName = keyof typeof FLAGS;

export type FlagValues = Values<typeof FLAGS>;

/** The flags that decide about the policy. */
export const POLICY_FLAGS: readonly FlagName[] = [
  'enable-ipv6',
  'enable-ipv4',
  'nomasq-all-reserved-ranges',
  'cidr-limit',
  'cidr-limit-max',
  'config-limit',
  'strict',
  'require-source',
  'must-not-masquerade',
  'must-masquerade',
  'invalid-packets',
];

/** The flags that decide about the dataplane. */
export const DATAPLANE_FLAGS: readonly FlagName[] = [
  'backend',
  'masq-chain',
  'iptables-mode',
  'random-fully',
  'to-ports',
  'accept-foreign',
];

/** @throws {UsageError} if a command line asks for what its dataplane cannot do; an agent that was asked may have found that one */
export function checkGiven({ backend, 'invalid-packets': invalid }: FlagValues): void {
  if (backend === 'iptables' && invalid === 'drop')
    throw new UsageError(
      '--invalid-packets=drop cannot be done with --backend=iptables: use --backend=nftables, or --backend=auto for nodes of both kinds',
    );
}

/** @throws {UsageError} if values that are valid by themselves contradict each other */
export function checkTogether(flags: FlagValues): void {
  const { 'cidr-limit': limit, 'cidr-limit-max': max } = flags;
  if (limit > max)
    throw new UsageError(
      `--cidr-limit=${limit} is above --cidr-limit-max=${max}: raise --cidr-limit-max too`,
    );
  if (!flags['enable-ipv4'] && !flags['enable-ipv6'])
    throw new UsageError('--enable-ipv4=false leaves no rules to keep: add --enable-ipv6');
  const { 'metrics-bind-address': metrics, 'scrape-bind-address': scrape } = flags;
  if (metrics !== '' && metrics === scrape)
    throw new UsageError(
      `--metrics-bind-address and --scrape-bind-address are both ${metrics}: use two addresses, or only one of the flags`,
    );
  checkPromises(flags);
}

function checkPromises(flags: FlagValues): void {
  const { 'must-not-masquerade': inside, 'must-masquerade': outside } = flags;
  const idle = [...inside, ...outside].find(
    ({ prefix: { family } }) => !flags[`enable-${FAMILY_NAMES[family]}`],
  );
  if (idle !== undefined) {
    const { family, text } = idle.prefix;
    throw new UsageError(
      `no promise about ${text} can be kept without rules for ${family}: add --enable-${FAMILY_NAMES[family]}`,
    );
  }
  for (const one of inside) {
    const other = outside.find(
      ({ prefix, from }) => overlap(one.prefix, prefix) && (!one.from || !from || overlap(one.from, from)),
    );
    if (other !== undefined)
      throw new UsageError(
        `--must-not-masquerade=${wayText(one)} contradicts --must-masquerade=${wayText(other)}: remove one of the two`,
      );
  }
}

function overlap(a: Prefix, b: Prefix): boolean {
  return covers(a, b) || covers(b, a);
}

/** Flags that klog adds to the Go agents: accepted so that their manifests work, and ignored. */
export const IGNORED_FLAGS: ReadonlyMap<string, 'boolean' | 'value'> = new Map([
  ['add_dir_header', 'boolean'],
  ['alsologtostderr', 'boolean'],
  ['log_backtrace_at', 'value'],
  ['log_dir', 'value'],
  ['log_file', 'value'],
  ['log_file_max_size', 'value'],
  ['log_flush_frequency', 'value'],
  ['logtostderr', 'boolean'],
  ['one_output', 'boolean'],
  ['skip_headers', 'boolean'],
  ['skip_log_headers', 'boolean'],
  ['stderrthreshold', 'value'],
  ['vmodule', 'value'],
]);
