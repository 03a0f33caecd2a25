import type { Family } from '../../cidr/address.ts';
import { DataplaneError } from '../error.ts';
import type { Host, ToolResult } from '../host.ts';
import type { IptablesMode } from './options.ts';
import { ruleWords } from './rule.ts';

/** The iptables commands of one family and mode. */
export interface Tool {
  readonly family: Family;
  /**
   * What stands behind `-A CHAIN` of each rule of the chain in `nat`; undefined where there is no such chain,
   * or where it holds rules made by nft(8) that iptables cannot read.
   */
  list(chain: string): Promise<readonly string[] | undefined>;
  /** Whether the chain is in the table. */
  has(table: string, chain: string): Promise<boolean>;
  /** Whether the chain in `nat` holds the rule; tells it also where the chain cannot be listed. */
  holds(chain: string, spec: string): Promise<boolean>;
  /** Feeds a transaction to iptables-restore. */
  restore(script: string): Promise<void>;
}

/** Seconds that a command waits for the xtables lock before it reports it busy, and the agent counts a retry. */
const LOCK_WAIT = '1';

/** RESOURCE_PROBLEM of xtables.h: the lock is busy, or memory or permission is lacking. */
const EXIT_RESOURCE = 4;

/** Of `iptables -C`: there is no such rule. */
const EXIT_FALSE = 1;

/** @param suffix `-nft` or `-legacy`; empty where the plain command is the one of that mode. */
export function createTool(host: Host, family: Family, suffix: string): Tool {
  const command = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}${suffix}`;
  const restore = `${command.replace(/(-nft|-legacy)?$/, '$1-restore')}`;

  const listRaw = async (table: string, chain: string): Promise<string | undefined> => {
    const result = await host.run(command, ['--wait', LOCK_WAIT, '-t', table, '-S', chain]);
    if (result.code === 0) return result.stdout;
    if (isAbsent(result)) return undefined;
    throw failure(command, result);
  };

  return {
    family,
    async list(chain) {
      const lines = (await listRaw('nat', chain))?.split('\n');
      const start = `-A ${chain} `;
      return lines?.filter((line) => line.startsWith(start)).map((line) => line.slice(start.length));
    },
    async has(table, chain) {
      return (await listRaw(table, chain)) !== undefined;
    },
    async holds(chain, spec) {
      const result = await host.run(command, [
        '--wait',
        LOCK_WAIT,
        '-t',
        'nat',
        '-C',
        chain,
        ...ruleWords(spec),
      ]);
      if (result.code === 0) return true;
      if (result.code === EXIT_FALSE || isAbsent(result)) return false;
      throw failure(command, result);
    },
    async restore(script) {
      const result = await host.run(restore, ['--noflush', '--wait', LOCK_WAIT], script);
      if (result.code !== 0) throw failure(restore, result);
    },
  };
}

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

/** A missing chain or table. iptables-nft 1.8 calls a chain "incompatible" that is not there, or not readable. */
function isAbsent({ code, stderr }: ToolResult): boolean {
  return code !== EXIT_RESOURCE && /No chain\/target\/match|is incompatible|does not exist/i.test(stderr);
}

function failure(command: string, result: ToolResult): DataplaneError {
  const said = result.stderr.trim().replace(/\s*\n\s*/g, '; ') || `exit code ${result.code}`;
  const message = `${command} failed: ${said}`;
  if (/can't open lock file/i.test(result.stderr)) {
    return new DataplaneError(
      'refused',
      message,
      "mount the host's /run/xtables.lock into the pod, writable",
    );
  }
  if (/Permission denied|Operation not permitted/i.test(result.stderr)) {
    return new DataplaneError(
      'refused',
      message,
      'run the agent as root with the capabilities NET_ADMIN and NET_RAW',
    );
  }
  if (result.code === EXIT_RESOURCE) {
    return new DataplaneError(
      'busy',
      message,
      'find out which process holds the xtables lock: fuser -v /run/xtables.lock',
    );
  }
  if (/line \d+ failed|does a matching rule exist/i.test(result.stderr)) {
    return new DataplaneError('raced', message, 'find out which other program changes these rules');
  }
  return new DataplaneError('refused', message, 'run the command by hand on the node to see more');
}
