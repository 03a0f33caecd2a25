import { DataplaneError } from '../dataplane/error.ts';
import type { Host, ToolResult } from '../dataplane/host.ts';

/** A value of libnftables-json(5). */
export type Json = unknown;

/** The member of an object, or the member of that member; undefined if there is none. */
export function at(value: Json, ...keys: readonly string[]): Json {
  return keys.reduce((inner, key) => (isObject(inner) ? inner[key] : undefined), value);
}

/** The same, a list; undefined if it is anything else. */
export function listAt(value: Json, ...keys: readonly string[]): readonly Json[] | undefined {
  const member = at(value, ...keys);
  return Array.isArray(member) ? member : undefined;
}

/** Whether it has members. */
export function isObject(value: Json): value is Readonly<Record<string, Json>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A statement or an expression is an object with one member, or just a name: its name, and what it is about. */
export function nameAndBody(value: Json): readonly [name: string, body: Json] {
  if (typeof value === 'string') return [value, null];
  return (isObject(value) ? Object.entries(value)[0] : undefined) ?? ['', null];
}

/** Something with a name in a table of nftables. */
export interface NftName {
  readonly kind: 'chain' | 'set' | 'map';
  readonly family: string;
  readonly table: string;
  readonly name: string;
}

/**
 * Lists what is named; undefined if there is no such thing (any more). To list less than a name, such as all chains, nft
 * 1.0.6 takes 0.5 MB for each table of the node.
 *
 * @throws {DataplaneError} also if nft was built without JSON
 */
export async function listNft(host: Host, what: NftName): Promise<readonly Json[] | undefined> {
  const result = await host.run('nft', ['-j', request(what)]);
  if (result.code !== 0 && /No such file or directory|does not exist/i.test(result.stderr)) return undefined;
  const objects = result.code === 0 ? parse(result.stdout) : undefined;
  if (objects !== undefined) return objects;
  throw failure(Object.values(what).join(' '), result);
}

/** On its command line nft(8) cannot read every name that there may be: a table may well be called "maps". */
function request({ kind, ...name }: NftName): string {
  return JSON.stringify({ nftables: [{ list: { [kind]: name } }] });
}

function parse(stdout: string): readonly Json[] | undefined {
  try {
    return listAt(JSON.parse(stdout), 'nftables');
  } catch {
    return undefined;
  }
}

function failure(what: string, { code, stderr }: ToolResult): DataplaneError {
  const [line = ''] = stderr.trim().split('\n');
  const said = code === 0 ? 'the output is not JSON' : line.replace(/^internal:\S+ /, '');
  const message = `nft -j list ${what} failed: ${said || `exit code ${code}`}`;
  return new DataplaneError('refused', message, 'run the command by hand on the node to see more');
}
