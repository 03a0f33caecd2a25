import type { Family } from '../../cidr/address.ts';
import { printable } from '../../text/escape.ts';
import { DataplaneError, killed, noListing, type Symptom, toolError } from '../error.ts';
import type { Host, ToolResult } from '../host.ts';
import { isOlder } from '../versions.ts';
import { NFT_FAMILY, TABLE, tableName } from './names.ts';

export interface NftTool {
  readonly version: string;
  /**
   * The agent's table, or one of its sets, as nft lists it; undefined if there is none.
   *
   * @throws {DataplaneError}
   */
  list(family: Family, what?: ListOptions): Promise<string | undefined>;
  /**
   * Carries out a transaction on the agent's table: all of it or, with an error, nothing.
   *
   * @throws {DataplaneError}
   */
  run(family: Family, script: string): Promise<void>;
}

interface ListOptions {
  /** Leaves out the elements of all sets. */
  readonly isTerse?: boolean;
  readonly set?: string;
}

/** The version of Ubuntu 22.04; older ones are not tested. */
const OLDEST_VERSION = [1, 0, 2];

/**
 * Finds nft.
 *
 * @throws {DataplaneError} if nft is not installed, or too old
 */
export async function openNft(host: Host): Promise<NftTool> {
  const { code, stdout } = await host.run('nft', ['--version']);
  if (code === null) throw killed('nft');
  const version = /^nftables v(\d+(?:\.\d+)*)/.exec(stdout)?.[1];
  if (version === undefined)
    throw new DataplaneError('missing', 'nft does not print its version', 'install nftables 1.0.2 or newer');
  if (isOlder(version, OLDEST_VERSION)) {
    const remedy = `install nftables ${OLDEST_VERSION.join('.')} or newer`;
    throw new DataplaneError('missing', `nft ${version} is too old`, remedy);
  }
  return {
    version,
    async list(family, { isTerse = false, set } = {}) {
      const options = isTerse ? ['--terse'] : [];
      const table = tableName(family);
      const what = [set === undefined ? 'table' : 'set', ...table.split(' '), ...(set ? [set] : [])];
      const result = await host.run('nft', [...options, 'list', ...what]);
      if (result.code === 0) {
        const [listing, owner] = LISTING.exec(result.stdout) ?? [];
        if (!listing?.startsWith(`table ${table} {`)) throw noListing('nft', what.join(' '));
        if (owner !== undefined) throw await ownedBy(owner, family, host);
        return listing;
      }
      if (/No such file or directory/.test(result.stderr)) return undefined;
      throw failure(result);
    },
    async run(family, script) {
      const { protocol } = NFT_FAMILY[family];
      // A table that a transaction deletes by its name cannot be listed in it.
      const isRemoval = script === `delete table ${tableName(family)}\n`;
      if (isRemoval) {
        const { stdout } = await host.run('nft', ['--handle', '--terse', 'list', 'table', protocol, TABLE]);
        const handle = /^table .* # handle (\d+)$/m.exec(stdout)?.[1];
        const byHandle = onlyOwn(family, `delete table ${protocol} handle ${handle}\n`);
        if (handle !== undefined && (await host.run('nft', ['-f', '-'], byHandle)).code === 0) return;
      }
      const input = isRemoval || script.length > LONG_SCRIPT ? script : onlyOwn(family, script);
      const result = await host.run('nft', ['-f', '-'], input);
      if (result.code !== 0) throw failure(result);
    },
  };
}

/**
 * The names of the tables of IPv4 and IPv6.
 *
 * @throws {DataplaneError}
 */
export async function listTables(host: Host): Promise<ReadonlySet<string>> {
  const result = await host.run('nft', ['list', 'tables']);
  if (result.code !== 0) throw failure(result);
  return new Set(Array.from(result.stdout.matchAll(/^table ip6? (\S+)$/gm), ([, name = '']) => name));
}

/** All of a listing. In its first line, nft(8) names the process that owns the table, if one does. */
const LISTING = /^table .* \{(?: # progname (.*))?\n(?:.*\n)*\}\s*$/;

/**
 * Only the socket that has made a table with the flag `owner` may change it (nft(8)). nft looks the name up in /proc, and
 * prints `(null)` for a process that it does not see, as one of another container.
 */
async function ownedBy(name: string, family: Family, host: Host): Promise<DataplaneError> {
  const table = await host.netlink?.ask((requests) => requests.table({ family, table: TABLE }));
  const known = [
    ...(name === '(null)' ? [] : [printable(name)]),
    ...(table?.owner === undefined ? [] : [`netlink port ${table.owner}, mostly the process id`]),
  ];
  const who = known.length === 0 ? '' : ` (${known.join(', ')})`;
  return new DataplaneError(
    'refused',
    `another process owns the table ${tableName(family)}${who}: only that process may change it`,
    'end that process, with which the table goes, or use --backend=iptables',
  );
}

/**
 * A script of more characters, of some 16,000 elements, is run as it is: to fetch as many would take more memory than to
 * fetch the tables of a node.
 */
const LONG_SCRIPT = 262_144;

/**
 * The script, after which nft fetches only the agent's table. Otherwise it fetches every table of the node, and 1.0.6 takes
 * 0.5 MB for each; but if the last command of a script lists a table, only that (nft_cache_evaluate in its src/cache.c).
 */
function onlyOwn(family: Family, script: string): string {
  return `${script}list table ${tableName(family)}\n`;
}

/** The texts that nft prints when it fails, the more specific first. */
const SYMPTOMS: readonly Symptom[] = [
  {
    pattern: /Operation not permitted|Permission denied/,
    failure: 'denied',
    remedy: 'run the agent as root with the capability NET_ADMIN',
  },
  {
    pattern: /Message too long|No buffer space/,
    failure: 'refused',
    remedy: 'a user namespace may not raise the netlink buffer: raise net.core.wmem_max, or run as real root',
  },
  {
    // The second one is what the kernel says of a subsystem that it lacks, and cannot load as a module (nfnetlink.c).
    pattern: /Protocol not supported|cache initialization failed: Invalid argument/,
    failure: 'unsupported',
    remedy: 'the kernel has no nf_tables: load it (modprobe), or use --backend=iptables',
  },
  {
    pattern: /Operation not supported/,
    failure: 'refused',
    remedy:
      'the kernel lacks a module (nft_masq, nft_fib, nft_numgen; nft_ct unless --invalid-packets=off): load it, or use --backend=iptables',
  },
  {
    pattern: /Device or resource busy|Resource temporarily unavailable|Interrupted system call/,
    failure: 'busy',
    remedy: 'find out which other program changes rules all the time',
  },
  {
    // Something that was observed is gone, or something was added.
    pattern: /No such file or directory|File exists|does not exist|interval overlaps|conflicting intervals/,
    failure: 'raced',
    remedy: 'find out which other program changes the table',
  },
];

/** The statements and expressions of the agent's rules that are in modules of their own. */
const MODULES: Readonly<Record<string, string>> = {
  fib: 'nft_fib_ipv4 (for IPv6, nft_fib_ipv6)',
  masquerade: 'nft_masq',
  numgen: 'nft_numgen',
  snat: 'nft_nat',
};

/** A part of a line that the kernel refuses, as for a statement that it does not know; nft(8) prints the line below. */
const REFUSED_PART =
  /:(\d+)-(\d+): Error: Could not process rule: (?:No such file or directory|Operation not supported)\n(.*)$/gm;

/** The modules without which the kernel cannot have the rules. */
function lackingModules(stderr: string): readonly string[] {
  const lacking = Array.from(stderr.matchAll(REFUSED_PART), ([, first, last, line = '']) => {
    const word = line.slice(Number(first) - 1, Number(last)).split(' ')[0];
    return MODULES[word ?? ''] ?? [];
  });
  return [...new Set(lacking.flat())];
}

function failure(result: ToolResult): DataplaneError {
  const lacking = lackingModules(result.stderr);
  if (lacking.length > 0) {
    const remedy = 'load them on the node (modprobe), or use --backend=iptables';
    return new DataplaneError('unsupported', `nft failed: the kernel lacks ${lacking.join(', ')}`, remedy);
  }
  const said = firstLines(result.stderr) || `exit code ${result.code}`;
  return toolError(SYMPTOMS, result.stderr, `nft failed: ${said}`);
}

/** The first error lines, without the lines of the script that nft prints below them. */
function firstLines(stderr: string): string {
  const errors = stderr.split('\n').filter((line) => /\bError\b|^internal:|^netlink:/.test(line));
  return (errors.length > 0 ? errors : [stderr.trim()]).slice(0, 3).join('; ');
}
