import type { Family } from '../../cidr/address.ts';
import { DataplaneError, type Symptom, toolError } from '../error.ts';
import type { Host, ToolResult } from '../host.ts';
import type { IptablesMode } from '../options.ts';
import { ruleWords } from './rule.ts';

/** The iptables commands of one family and mode. */
export interface Tool {
  readonly family: Family;
  /**
   * What stands behind `-A CHAIN` of each rule of the chain in `nat`; undefined where there is no such chain,
   * or where it holds rules made by nft(8) that iptables cannot read.
   */
  list(chain: string): Promise<readonly string[] | undefined>;
  /** The same with what each rule has counted; empty where there is no such chain. */
  listCounts(chain: string): Promise<readonly CountedRule[]>;
  /** Whether the chain is in the table. */
  has(table: string, chain: string): Promise<boolean>;
  /** Whether the chain in `nat` holds the rule; mostly tells it also where the chain cannot be listed. */
  holds(chain: string, spec: string): Promise<boolean | 'unreadable'>;
  /** How many rules of `nat` lead into the chain. */
  references(chain: string): Promise<number>;
  /** Feeds a transaction to iptables-restore. */
  restore(script: string): Promise<void>;
}

/** A rule and what it has counted. */
export interface CountedRule {
  readonly spec: string;
  readonly packets: bigint;
  readonly bytes: bigint;
}

/** Seconds that a command waits for the xtables lock before it reports it busy, and the agent counts a retry. */
const LOCK_WAIT = '1';

/** Of `iptables -C`: there is no such rule. */
const EXIT_FALSE = 1;

/** @param suffix `-nft` or `-legacy`; empty where the plain command is the one of that mode. */
export function createTool(host: Host, family: Family, suffix: string): Tool {
  const command = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}${suffix}`;
  const restore = `${command.replace(/(-nft|-legacy)?$/, '$1-restore')}`;

  const look = (table: string, ...args: readonly string[]) =>
    host.run(command, ['--wait', LOCK_WAIT, '-t', table, ...args]);
  const listRaw = async (table: string, chain: string, ...options: readonly string[]) => {
    const result = await look(table, ...options, '-S', chain);
    if (result.code === 0) return result.stdout;
    if (isAbsent(result)) return undefined;
    throw failure(command, result);
  };

  return {
    family,
    async list(chain) {
      const listing = await listRaw('nat', chain);
      return listing === undefined ? undefined : parseListing(command, chain, listing);
    },
    async listCounts(chain) {
      const listing = await listRaw('nat', chain, '-v');
      return listing === undefined ? [] : parseListing(command, chain, listing).map(parseCounts);
    },
    async has(table, chain) {
      return (await listRaw(table, chain)) !== undefined;
    },
    async holds(chain, spec) {
      const result = await look('nat', '-C', chain, ...ruleWords(spec));
      if (result.code === 0) return true;
      if (result.code === EXIT_FALSE || isAbsent(result)) return false;
      if (/Parsing nftables rule failed/i.test(result.stderr)) return 'unreadable';
      throw failure(command, result);
    },
    async references(chain) {
      const result = await look('nat', '-n', '-L', chain);
      if (result.code !== 0 && isAbsent(result)) return 0;
      if (result.code !== 0) throw failure(command, result);
      const count = /^Chain \S+ \((\d+) references\)/m.exec(result.stdout)?.[1];
      if (count === undefined) throw noListing(command, chain);
      return Number(count);
    },
    async restore(script) {
      const result = await host.run(restore, ['--noflush', '--wait', LOCK_WAIT], script);
      if (result.code !== 0) throw failure(restore, result);
    },
  };
}

/** What a command says of itself. */
export interface ToolVersion {
  /** `1.8.9` */
  readonly version: string;
  readonly mode: IptablesMode;
}

/** What a command says of itself; undefined where it is not installed. Before 1.8 there was only the legacy mode. */
export async function toolVersion(host: Host, command: string): Promise<ToolVersion | undefined> {
  try {
    const { stdout } = await host.run(command, ['--version']);
    const match = /v(\d+(?:\.\d+)+)(?: \((nf_tables|legacy)\))?/.exec(stdout);
    if (match === null) return undefined;
    return { version: match[1] ?? '', mode: match[2] === 'nf_tables' ? 'nft' : 'legacy' };
  } catch (error) {
    if (error instanceof DataplaneError && error.failure === 'missing') return undefined;
    throw error;
  }
}

/** What stands behind `-A CHAIN`. Comments may hold line breaks: a line ends only outside of quotes. */
function parseListing(command: string, chain: string, listing: string): readonly string[] {
  const lines = listing.match(/(?:"(?:[^"\\]|\\.)*"|[^"\n])+/gs) ?? [];
  const declared = lines.some((line) => line === `-N ${chain}` || line.startsWith(`-P ${chain} `));
  if (!declared) throw noListing(command, chain);
  const start = `-A ${chain}`;
  return lines
    .filter((line) => line === start || line.startsWith(`${start} `))
    .map((line) => line.slice(start.length + 1));
}

/** iptables puts `-c PACKETS BYTES` before the target, and never into a comment of ours. */
function parseCounts(spec: string): CountedRule {
  const [text, packets = '0', bytes = '0'] = / -c (\d+) (\d+)(?= -[jg] )/.exec(spec) ?? [''];
  return { spec: spec.replace(text, ''), packets: BigInt(packets), bytes: BigInt(bytes) };
}

/** An empty answer must not pass for an empty chain: the chain or its jump would be written again at each sync. */
function noListing(command: string, chain: string): DataplaneError {
  const remedy = 'run the command by hand on the node; is it a wrapper that prints something else?';
  return new DataplaneError('refused', `${command} printed no listing of ${chain} in nat`, remedy);
}

/** A missing chain or table. iptables-nft 1.8 calls a chain "incompatible" that is not there, or not readable. */
function isAbsent({ stderr }: ToolResult): boolean {
  return /No chain\/target\/match|is incompatible|does not exist/i.test(stderr);
}

/** What the tools print when they fail, the more particular first. */
const SYMPTOMS: readonly Symptom[] = [
  {
    pattern: /can't open lock file/i,
    failure: 'refused',
    remedy: "mount the host's /run/xtables.lock into the pod, writable",
  },
  {
    pattern: /Permission denied|Operation not permitted/i,
    failure: 'denied',
    remedy: 'run the agent as root with the capabilities NET_ADMIN and NET_RAW',
  },
  {
    pattern: /Protocol not supported|Address family not supported/i,
    failure: 'unsupported',
    remedy:
      'the kernel has no such rules: is IPv6 turned off, or nf_tables missing (--iptables-mode=legacy)?',
  },
  {
    pattern: /Message too long/i,
    failure: 'refused',
    remedy:
      'a user namespace may not raise the netlink buffer: raise net.core.wmem_default, or run as real root',
  },
  {
    pattern: /holding the xtables lock|Resource temporarily unavailable/i,
    failure: 'busy',
    remedy: 'find out which process holds the xtables lock: fuser -v /run/xtables.lock',
  },
  {
    pattern: /Device or resource busy/i,
    failure: 'refused',
    remedy: 'a rule of somebody else leads into our chain: remove that rule first',
  },
  {
    // What was there when it was observed is gone; legacy names no more than the line.
    pattern:
      /does a matching rule exist|No such file or directory|does not exist|^\S+: line \d+ failed\.?$/im,
    failure: 'raced',
    remedy: 'find out which other program changes these rules',
  },
];

function failure(command: string, result: ToolResult): DataplaneError {
  const said = result.stderr.trim().replace(/\s*\n\s*/g, '; ') || `exit code ${result.code}`;
  return toolError(SYMPTOMS, result.stderr, `${command} failed: ${said}`);
}
