import type { Family } from '../../cidr/address.ts';
import { DataplaneError } from '../error.ts';
import type { Host, ToolResult } from '../host.ts';
import type { IptablesMode } from '../options.ts';
import { ruleWords, splitLines } from './rule.ts';

/** The iptables commands of one family and mode. */
export type Tool = ReturnType<typeof createTool>;

interface CountedRule {
  readonly spec: string;
  readonly packets: bigint;
}

/** Seconds that a command waits for the xtables lock before it fails, and the agent counts a retry. */
const LOCK_WAIT = '1';

/** More than a rule of the agent has in a listing, on average. */
const RULE_BYTES = 512;

/** The command of a family, without the suffix of a mode. */
export const IPTABLES_OF = { IPv4: 'iptables', IPv6: 'ip6tables' } as const;

/**
 * Makes the tool of one family and mode.
 *
 * @param suffix `-nft` or `-legacy`; empty if the plain command has that mode
 */
export function createTool(host: Host, family: Family, suffix: string) {
  const command = `${IPTABLES_OF[family]}${suffix}`;
  const restore = `${command.replace(/(-nft|-legacy)?$/, '$1-restore')}`;

  const ask = (table: string, args: readonly string[], mostBytes?: number) =>
    host.run(command, ['--wait', LOCK_WAIT, '-t', table, ...args], undefined, mostBytes);
  const askNat = (...args: readonly string[]) => ask('nat', args);
  const rulesIn = (chain: string, result: ToolResult): readonly string[] | undefined => {
    if (result.isCut) return undefined;
    if (result.code === 0) return parseListing(command, chain, result.stdout);
    if (isAbsent(result) || isUnreadable(result)) return undefined;
    throw failure(command, result);
  };

  return {
    family,
    /**
     * The words after `-A CHAIN` of each rule of a chain; undefined if there is no such chain, if it has rules that iptables cannot
     * read (of nft(8), or in legacy mode with an extension that is not installed here), or more than `most`.
     */
    async list(chain: string, table = 'nat', most?: number): Promise<readonly string[] | undefined> {
      return rulesIn(chain, await ask(table, ['-S', chain], most && most * RULE_BYTES));
    },
    /** The rules of a chain in `nat` with their counts; empty if there is no such chain. */
    async listCounts(chain: string): Promise<readonly CountedRule[]> {
      return rulesIn(chain, await askNat('-v', '-S', chain))?.map(parseCounts) ?? [];
    },
    /**
     * Whether a chain in `nat` holds the rule of these words; mostly works also for a chain that cannot be listed.
     *
     * @returns the error if iptables cannot tell: `blocked` because of another rule of the chain, or because it cannot read these words,
     * also if it has printed them
     * @throws {DataplaneError} if it could not look, or the kernel does not support such a rule
     */
    async finds(chain: string, spec: string): Promise<boolean | DataplaneError> {
      const result = await askNat('-C', chain, ...ruleWords(spec));
      if (result.code === 0) return true;
      const error = failure(command, result);
      if (error.meansNoRules || ['busy', 'exhausted'].includes(error.failure)) throw error;
      if (NO_SUCH_RULE.test(result.stderr) || isAbsent(result)) return false;
      if (!isUnreadable(result)) return error;
      return new DataplaneError(
        'blocked',
        `${command} cannot tell whether the agent's rules are in use, because it can neither list ${chain} of nat nor look for the jump there: ${saidBy(result)}`,
        'use --backend=nftables, or find the program that writes rules of nft(8) into this chain',
      );
    },
    /** Deletes an empty chain of `nat`; returns what the command says if a rule leads to it. */
    async deleteChain(chain: string): Promise<string | undefined> {
      const result = await askNat('-X', chain);
      if (result.code === 0 || isAbsent(result)) return undefined;
      const error = failure(command, result);
      if (error.failure === 'busy') throw error;
      return saidBy(result);
    },
    /** Feeds a transaction to iptables-restore. */
    async restore(script: string): Promise<void> {
      const result = await host.run(restore, ['--noflush', '--wait', LOCK_WAIT], script);
      if (result.code !== 0) throw failure(restore, result);
    },
  };
}

export interface ToolVersion {
  /** Such as `1.8.9`. */
  readonly version: string;
  readonly mode: IptablesMode;
}

/** The version and mode of a command; undefined if it is not installed. Versions before 1.8 have only legacy mode. */
export async function toolVersion(host: Host, command: string): Promise<ToolVersion | undefined> {
  try {
    const result = await host.run(command, ['--version']);
    const match = /v(\d+(?:\.\d+)+)(?: \((nf_tables|legacy)\))?/.exec(result.stdout);
    // Without netlink, iptables-nft does not even tell its version.
    if (match === null && result.code !== 0) throw failure(`${command} --version`, result);
    if (match === null) return undefined;
    return { version: match[1] ?? '', mode: match[2] === 'nf_tables' ? 'nft' : 'legacy' };
  } catch (error) {
    if (error instanceof DataplaneError && error.failure === 'missing') return undefined;
    throw error;
  }
}

/** The words after `-A CHAIN` of each rule. */
function parseListing(command: string, chain: string, listing: string): readonly string[] {
  const lines = splitLines(listing);
  const declared = lines.some((line) => line === `-N ${chain}` || line.startsWith(`-P ${chain} `));
  // Empty output is not an empty chain: otherwise each sync would write it again.
  if (!declared)
    throw new DataplaneError(
      'refused',
      `${command} printed no listing of ${chain}`,
      'run the command by hand on the node: it may be a wrapper that prints something else',
    );
  const start = `-A ${chain}`;
  return lines
    .filter((line) => line === start || line.startsWith(`${start} `))
    .map((line) => line.slice(start.length + 1));
}

/** Reads a rule with counts. iptables prints `-c PACKETS BYTES` before the target; no comment of the agent holds it. */
function parseCounts(spec: string): CountedRule {
  const found = / -c (\d+) \d+(?= -[jg] )/.exec(spec);
  if (found === null) return { spec, packets: 0n };
  const [text, packets = ''] = found;
  const rest = spec.slice(0, found.index) + spec.slice(found.index + text.length);
  return { spec: rest, packets: BigInt(packets) };
}

/** What `-C` says if there is no such rule. It says this only of a chain that it has read. */
const NO_SUCH_RULE = /does a matching rule exist/;

/** Whether a chain or table is missing; iptables-legacy takes a chain in a rule for an extension. */
function isAbsent({ stderr }: ToolResult): boolean {
  return /No chain\/target\/match|does not exist|Couldn't load target/i.test(stderr);
}

/** What iptables-legacy says of a rule that another program has written. It still finds a given rule, and writes others. */
const UNKNOWN_EXTENSION = /Can't find library for (?:match|target) `/;

/**
 * Whether there is a rule that iptables cannot parse, of nft(8), some of which make it crash, or with an unknown extension. Some
 * versions of iptables-nft 1.8 say the first of these texts of a missing chain too.
 */
function isUnreadable({ stderr }: ToolResult): boolean {
  return (
    /is incompatible|Parsing nftables rule failed|crashed: SIG/i.test(stderr) ||
    UNKNOWN_EXTENSION.test(stderr)
  );
}

/** What iptables-nft says of each match and target that the kernel does not know; nft_compat is needed for all. */
const LACKING = /Extension (\S+) revision \d+ not supported, missing kernel module/g;

/** Has the type of the chains by which packets enter NAT in nf_tables. */
const NAT_MODULE = 'nft_chain_nat';

/** What iptables-nft says without it. */
const NO_CHAIN_TYPE =
  /CHAIN_ADD failed \(No such file or directory\): chain (?:PREROUTING|INPUT|OUTPUT|POSTROUTING)/;

/** The texts that the tools print when they fail, the more specific first, and their meanings. */
const SYMPTOMS: readonly (Pick<DataplaneError, 'failure' | 'remedy'> & { readonly pattern: RegExp })[] = [
  {
    // In legacy mode alone: nf_tables holds rules of IPv6 also then.
    pattern: /initialize ip6tables table .*Address family not supported/i,
    failure: 'unsupported',
    remedy:
      'IPv6 is turned off on this node (ipv6.disable=1), and the agent writes no rules of IPv4 without those of IPv6: leave out --enable-ipv6, or use --iptables-mode=nft',
  },
  {
    pattern: /do you need to insmod|Module \S+ not found/i,
    failure: 'unsupported',
    remedy:
      'load ip_tables and iptable_nat (for IPv6, ip6_tables and ip6table_nat), or use --iptables-mode=nft or --backend=nftables',
  },
  {
    pattern: /can't open lock file/i,
    failure: 'refused',
    remedy: "mount the host's /run/xtables.lock into the pod, writable",
  },
  {
    // A kernel without nf_tables says that it does not know the protocol.
    pattern:
      /initialize nft: (?:Operation not permitted|Permission denied|Function not implemented|Address family)/i,
    failure: 'denied',
    remedy:
      'allow netlink sockets (seccomp, SELinux), or use --iptables-mode=legacy if all programs of the node use that mode',
  },
  {
    pattern: /Permission denied|Operation not permitted/i,
    failure: 'denied',
    remedy: 'run the agent as root with the capabilities NET_ADMIN and NET_RAW',
  },
  {
    // The kernel says the last of a subsystem that it lacks, and cannot load as a module (nfnetlink.c).
    pattern: /Protocol not supported|Address family not supported|rule set generation id: Invalid argument/i,
    failure: 'unsupported',
    remedy: 'the kernel has no nf_tables: use a kernel that has it, or --iptables-mode=legacy',
  },
  {
    pattern: /Cannot allocate memory|Too many open files/i,
    failure: 'exhausted',
    remedy: 'raise the limits of the pod (files, memory), or find out what uses them up',
  },
  {
    pattern: /holding the xtables lock|Resource temporarily unavailable/i,
    failure: 'busy',
    remedy: 'find out which process holds the xtables lock: fuser -v /run/xtables.lock',
  },
  {
    // What was observed is gone, or was made meanwhile; the legacy command prints only the line number.
    pattern:
      /CHAIN_USER_ADD failed|does a matching rule exist|No such file or directory|does not exist|^\S+: line \d+ failed\.?$/im,
    failure: 'raced',
    remedy:
      'find out which other program changes these rules, or whether a kernel module is missing (xt_comment, xt_addrtype, nft_compat)',
  },
];

function saidBy({ stderr, code }: ToolResult): string {
  return stderr.trim().replace(/\s*\n\s*/g, '; ') || `exit code ${code}`;
}

function failure(command: string, result: ToolResult): DataplaneError {
  const extensions = new Set(Array.from(result.stderr.matchAll(LACKING), ([, name]) => `xt_${name}`));
  const hasNoChainType = NO_CHAIN_TYPE.test(result.stderr);
  const modules = [
    ...(hasNoChainType ? [NAT_MODULE] : []),
    ...(extensions.size > 0 ? ['nft_compat', ...extensions] : []),
  ];
  if (modules.length > 0) {
    const message = `${command} failed: the kernel lacks some of ${modules.join(', ')}`;
    // Without the chain type, nftables cannot do it either.
    const other = hasNoChainType ? '--iptables-mode=legacy' : '--backend=nftables';
    return new DataplaneError(
      'unsupported',
      message,
      `use a node whose kernel has these modules, or use ${other}`,
    );
  }
  const { failure: kind = 'refused', remedy = 'run the command by hand on the node to see more' } =
    SYMPTOMS.find(({ pattern }) => pattern.test(result.stderr)) ?? {};
  return new DataplaneError(kind, `${command} failed: ${saidBy(result)}`, remedy);
}
