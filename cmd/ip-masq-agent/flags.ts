import { hostname } from 'node:os';
import { FAMILY_NAMES } from '../../lib/cidr/address.ts';
import { OTHER_RESERVED_RANGES } from '../../lib/cidr/reserved.ts';
import { DEFAULT_LIMITS } from '../../lib/config/limits.ts';
import { DEFAULT_CHAIN, INVALID_PACKETS } from '../../lib/dataplane/options.ts';
import { UsageError } from './exit.ts';
import {
  assertions,
  bindAddress,
  boolean,
  chain,
  choice,
  cidrList,
  configFileNames,
  count,
  grace,
  interval,
  optionalPath,
  path,
  portRanges,
  protocols,
} from './flag-kinds.ts';
import { type Flag, flag, type Values } from './flag-table.ts';

/** What a flag decides about. Commands beside a running agent take those of the policy and of the dataplane from it. */
type About = 'policy' | 'dataplane' | 'daemon';

interface AgentFlag extends Flag<unknown> {
  readonly about: About;
}

const policy = <Value>(...row: Row<Value>) => ({ ...flag(...row), about: 'policy' as const });
const dataplane = <Value>(...row: Row<Value>) => ({ ...flag(...row), about: 'dataplane' as const });
const daemon = <Value>(...row: Row<Value>) => ({ ...flag(...row), about: 'daemon' as const });

type Row<Value> = Parameters<typeof flag<Value>>;

/**
 * The flags of the daemon. Every command accepts all of them, so that the arguments of a DaemonSet work with each
 * command. Parser, help and documentation use this table.
 */
export const FLAGS = {
  'config-dir': daemon(path, '/etc/config', 'directory of the config files, which are named ip-masq-*'),
  'masq-chain': dataplane(chain, DEFAULT_CHAIN, "name of the agent's chain in the table nat of iptables"),
  'nomasq-all-reserved-ranges': policy(
    boolean,
    'false',
    `if there is no config file, do not masquerade traffic to these ranges, in addition to those of RFC 1918: ${OTHER_RESERVED_RANGES.map(({ prefix }) => prefix.text).join(', ')}`,
  ),
  'enable-ipv6': policy(boolean, 'false', 'keep rules for IPv6 too'),
  'enable-ipv4': policy(
    boolean,
    'true',
    'keep rules for IPv4. In an IPv6-only cluster, set this to false, and set --enable-ipv6. An IPv4 CIDR is then an error',
  ),
  'resync-interval': daemon(
    interval,
    '60',
    'time between two checks of the config files and the kernel if nothing changes, in seconds or as a Go duration. resyncInterval in a config file overrides it',
  ),
  'random-fully': dataplane(
    protocols,
    'true',
    'choose the source ports of masqueraded connections at random. A list such as tcp,sctp limits that to these protocols: connections of other protocols keep their ports if possible, which STUN and WebRTC over UDP need',
  ),
  'to-ports': dataplane(
    portRanges,
    '',
    'source ports for masqueraded TCP, UDP and SCTP connections, such as 10000-29999,32768-51819. Every port is equally likely. Without this flag, the kernel replaces a port from 512 to 1023 with one from 600-1023, a lower port with one from 1-511, and any other port with one from 1024-65535. With this flag, connections from ports below 1024 get one of its ports too, so a server that accepts only ports below 1024 refuses them',
  ),
  backend: dataplane(
    choice('auto', 'iptables', 'nftables'),
    'auto',
    'where the kernel keeps the rules: in a chain of iptables, or in a table of nftables, in which the cost of a packet does not grow with the number of CIDRs. auto: in nftables if kube-proxy uses it or if iptables cannot work on the node, else in iptables. The agent asks about kube-proxy at each sync, and moves its rules if the answer has changed. It checks only once whether iptables can work',
  ),
  'iptables-mode': dataplane(
    choice('auto', 'nft', 'legacy'),
    'auto',
    'kernel API that iptables uses. auto: the one that kubelet uses. If the node has no chains of kubelet, this is nft, or legacy if legacy holds more rules in nat',
  ),
  'invalid-packets': policy(
    choice(...INVALID_PACKETS),
    'count',
    'what to do with packets that connection tracking refuses and that would leave with the address of a pod, such as those of a connection whose entry has expired. count: count them in a metric. drop: also drop them; masqueradeFromCIDRs must then list the ranges of pods. off: have no rules for them. This works only in nftables',
  ),
  'stale-flows': daemon(
    choice('report', 'delete-udp', 'off'),
    'report',
    'what to do with connections that keep an old verdict after the start or a change. report: log and count them. delete-udp: also delete those of UDP from conntrack, so that their next packets get the new verdict. off: never read conntrack; the agent then cannot tell about which connections another program decides, or how many source ports are in use. This needs netlink',
  ),
  'cidr-limit': policy(
    count,
    String(DEFAULT_LIMITS.cidrLimit),
    'maximum number of CIDRs in a config file that does not set cidrLimit',
  ),
  'cidr-limit-max': policy(
    count,
    String(DEFAULT_LIMITS.cidrLimitMax),
    'maximum number of CIDRs in any config file, and in all config files together. No cidrLimit may exceed it. More CIDRs need more memory',
  ),
  strict: policy(boolean, 'false', 'treat warnings as errors'),
  'require-file': policy(
    configFileNames,
    '',
    'names of config files that must be there, such as ip-masq-operator. If one is missing, the config has an error',
  ),
  'must-not-masquerade': policy(
    assertions,
    '',
    "assertion: it is an error if the config masquerades any address of these CIDRs. Use it for ranges that must see the pod's address, such as those of pods, but not for Services. `10.0.0.0/8 from 10.244.0.0/16` is about packets from one range",
  ),
  'must-masquerade': policy(
    assertions,
    '',
    'assertion: it is an error if the config leaves any address of these CIDRs unmasqueraded. `8.0.0.0/8 from 10.244.0.0/16` is about packets from one range',
  ),
  'on-invalid-config': daemon(
    choice('exit', 'keep'),
    'exit',
    'what to do if the config is invalid. exit: end with exit code 3. keep: report the errors, and go on with the last valid config; if there is none, change nothing on the node. With --once, the agent ends in any case',
  ),
  'state-dir': daemon(
    optionalPath,
    '',
    'directory in which the agent keeps the config files of the last valid config. The directory must outlive the pod and a reboot. If the config is invalid at a start, and the node has no rules of the agent, as after a reboot, the agent writes the rules of the last valid config before it ends. With --on-invalid-config=keep it goes on with that config, also if the rules on the node still do what that config says. If the flag is empty, nothing is kept',
  ),
  'vanished-grace': daemon(
    grace,
    '15m',
    'how long the last text of a config file that has vanished still applies, but at most until the agent restarts. A file that contained only {} leaves nothing behind. 0: the text no longer applies once the file has vanished',
  ),
  'rollout-window': daemon(
    grace,
    '0',
    'how long a config that changes verdicts takes to reach all nodes. Each node applies it at a time of its own in this window, so that a mistake stops at the first nodes. A node applies a config at once if the config goes back to the verdicts from before the last change, if the node has no rules of the agent, or at SIGHUP. This needs --on-invalid-config=keep, and the name of the node in NODE_NAME or as host name. 0: each change is applied at once',
  ),
  'accept-masqueraded': dataplane(
    cidrList,
    '',
    'ranges of pods, such as 10.244.0.0/16, that are masqueraded on purpose, by the config or by another program such as an egress gateway. The agent and doctor do not warn of routes that lead there. They do not count connections from there that the kernel treats differently from what the config says',
  ),
  'sync-timeout': daemon(
    interval,
    '30s',
    'how long a sync may take, with all its retries while the kernel or the xtables lock is busy. A single tool may also take that long',
  ),
  once: daemon(boolean, 'false', 'sync once and exit'),
  'cleanup-on-exit': daemon(boolean, 'false', 'remove the rules when SIGTERM or SIGINT ends the agent'),
  'metrics-bind-address': daemon(
    bindAddress,
    '127.0.0.1:9614',
    'address of the server for metrics, probes and status. If it is empty, there is no server, and the probes of a pod fail',
  ),
  'scrape-bind-address': daemon(
    bindAddress,
    '',
    'address of a second server that serves only /metrics, for a Prometheus on another node. If it is empty, there is no second server',
  ),
  'log-format': daemon(
    choice('auto', 'text', 'json'),
    'auto',
    'text is for people, json for machines. auto is text if standard error is a terminal, else json',
  ),
  v: daemon(count, '2', 'verbosity as in klog. 3 also logs syncs that change nothing'),
  'termination-log': daemon(
    path,
    '/dev/termination-log',
    'file to which the agent writes the reason of a failure, if the file exists',
  ),
} as const satisfies Readonly<Record<string, AgentFlag>>;

export type FlagName = keyof typeof FLAGS;

export type FlagValues = Values<typeof FLAGS>;

export const POLICY_FLAGS = flagsAbout('policy');
export const DATAPLANE_FLAGS = flagsAbout('dataplane');

function flagsAbout(about: About): readonly FlagName[] {
  return (Object.keys(FLAGS) as FlagName[]).filter((name) => FLAGS[name].about === about);
}

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
  const { 'rollout-window': window, 'on-invalid-config': onInvalid } = flags;
  if (window > 0 && onInvalid !== 'keep')
    throw new UsageError(
      '--rollout-window needs an agent that stays while its config is invalid: add --on-invalid-config=keep',
    );
  if (window > 0 && nodeName() === '')
    throw new UsageError(
      '--rollout-window needs the name of the node: set NODE_NAME from spec.nodeName, or give the host a name',
    );
  checkAssertions(flags);
}

/** The name of the node, as the manifest says it, else the host; empty if neither does. */
export function nodeName(): string {
  return process.env['NODE_NAME'] || hostname();
}

function checkAssertions(flags: FlagValues): void {
  const idle = [...flags['must-not-masquerade'], ...flags['must-masquerade']].find(
    ({ prefix: { family } }) => !flags[`enable-${FAMILY_NAMES[family]}`],
  );
  if (idle !== undefined) {
    const { family, text } = idle.prefix;
    throw new UsageError(
      `no assertion about ${text} can hold without rules for ${family}: add --enable-${FAMILY_NAMES[family]}`,
    );
  }
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
