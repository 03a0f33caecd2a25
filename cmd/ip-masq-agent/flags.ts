import { DEFAULT_CIDR_LIMIT } from '../../lib/config/config.ts';
import { bindAddress, boolean, chain, choice, count, interval, path, ports } from './flag-kinds.ts';
import { flag, type Values } from './flag-table.ts';

/**
 * The flags of the daemon. Every command takes them all, so that the arguments of a DaemonSet can stand behind any.
 * Parser, `--help`, completion and README read this one table.
 */
export const FLAGS = {
  'config-dir': flag(path, '/etc/config', 'directory whose files ip-masq-* are the sources'),
  'masq-chain': flag(
    chain,
    'IP-MASQ-AGENT',
    'name of the chain in nat that holds the rules of --backend=iptables',
  ),
  'nomasq-all-reserved-ranges': flag(
    boolean,
    'false',
    'without any source, leave all ranges alone that RFCs reserve, not only those of RFC 1918',
  ),
  'enable-ipv6': flag(boolean, 'false', 'keep rules for IPv6 too'),
  'resync-interval': flag(
    interval,
    '60',
    'time between two checks of sources and kernel when nothing has changed: seconds, or a Go duration; resyncInterval in a source overrides it',
  ),
  'random-fully': flag(boolean, 'true', 'choose the source ports of masqueraded connections at random'),
  'to-ports': flag(
    ports,
    '',
    'source ports for masqueraded TCP, UDP and SCTP connections, such as 1024-29999,32768-65535, every port as likely as any other',
  ),
  backend: flag(
    choice('iptables', 'nftables'),
    'iptables',
    'what keeps the rules in the kernel: a chain of iptables, or an nftables table, in which a packet costs the same with any number of CIDRs',
  ),
  'iptables-mode': flag(
    choice('auto', 'nft', 'legacy'),
    'auto',
    'kernel API that --backend=iptables uses; auto finds the one that kubelet uses',
  ),
  'cidr-limit': flag(count, String(DEFAULT_CIDR_LIMIT), 'most CIDRs of a source that does not set cidrLimit'),
  strict: flag(boolean, 'false', 'take every warning for an error'),
  'sync-timeout': flag(interval, '30s', 'how long a busy xtables lock is waited for'),
  once: flag(boolean, 'false', 'sync once and exit'),
  'cleanup-on-exit': flag(boolean, 'false', 'remove the rules when SIGTERM or SIGINT ends the agent'),
  'metrics-bind-address': flag(
    bindAddress,
    '127.0.0.1:9614',
    'address of the server for metrics, probes and status pages, empty for none',
  ),
  'log-format': flag(choice('json', 'text'), 'json', 'json for machines, text for people'),
  v: flag(
    count,
    '2',
    'verbosity as in klog: from 3 syncs that change nothing are logged too, from 5 the transactions as iptables-restore or nft gets them',
  ),
  'termination-log': flag(
    path,
    '/dev/termination-log',
    'file that gets the reason of a failure, where the file exists',
  ),
} as const;

export type FlagName = keyof typeof FLAGS;

export type FlagValues = Values<typeof FLAGS>;

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
