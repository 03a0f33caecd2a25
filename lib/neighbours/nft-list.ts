import type { DataplaneError } from '../dataplane/error.ts';
import { type Symptom, toolError } from '../dataplane/error.ts';
import type { Host, ToolResult } from '../dataplane/host.ts';
import { isObject, type JsonObject, listAt } from './nft-json.ts';

/** The name of a chain, set or map in a table of nftables. */
export interface NftName {
  readonly kind: 'chain' | 'set' | 'map';
  readonly family: string;
  readonly table: string;
  readonly name: string;
}

/**
 * The command for the names of all chains. Other commands that find base chains ("list tables", "list hooks") read all
 * rules, which takes seconds with 75,000 rules.
 */
const ALL_CHAINS = ['list', 'chains'];

/**
 * Lists the named object, or all chains; undefined if the object does not exist (any more).
 *
 * @throws {DataplaneError} `unsupported` if the kernel has no nf_tables, `missing` if there is no nft with JSON
 */
export async function listNft(host: Host, what?: NftName): Promise<readonly JsonObject[] | undefined> {
  const result = await host.run('nft', ['-j', ...(what === undefined ? ALL_CHAINS : [request(what)])]);
  if (result.code !== 0 && /No such file or directory|does not exist/i.test(result.stderr)) return undefined;
  const objects = result.code === 0 ? parse(result.stdout) : undefined;
  if (objects !== undefined) return objects;
  const words = what === undefined ? ALL_CHAINS : ['list', what.kind, what.family, what.table, what.name];
  throw failure(words.join(' '), result);
}

/** The request as JSON, because the command line of nft(8) cannot hold every name: a table may be called "maps". */
function request({ kind, ...name }: NftName): string {
  return JSON.stringify({ nftables: [{ list: { [kind]: name } }] });
}

function parse(stdout: string): readonly JsonObject[] | undefined {
  try {
    return listAt(JSON.parse(stdout), 'nftables')?.filter((object) => isObject(object));
  } catch {
    return undefined;
  }
}

const SYMPTOMS: readonly Symptom[] = [
  {
    pattern: /Operation not permitted|Permission denied/i,
    failure: 'denied',
    remedy: 'run the agent as root with the capability NET_ADMIN',
  },
  { pattern: /not supported/i, failure: 'unsupported', remedy: 'the kernel has no nf_tables' },
  { pattern: /compiled/i, failure: 'missing', remedy: 'install an nft that was built with JSON' },
];

/** @param words the request as on a command line */
function failure(words: string, { code, stderr }: ToolResult): DataplaneError {
  const [line = ''] = stderr.trim().split('\n');
  const said = code === 0 ? 'the output is not JSON' : line.replace(/^internal:\S+ /, '');
  return toolError(SYMPTOMS, stderr, `nft -j ${words} failed: ${said || `exit code ${code}`}`);
}
