import { createHash } from 'node:crypto';
import { lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LastValid } from '../agent/load.ts';
import type { ConfigFile } from '../config/config-file.ts';
import { dataLink, readVolumeVersion } from '../config/read.ts';
import { ExhaustedError, errorMessage, SystemError } from '../text/error.ts';
import { printable } from '../text/escape.ts';

/** What stands beside the texts. */
export interface LastValidSummary {
  readonly format: 1;
  /** The node that the texts are of. */
  readonly node: string;
  readonly since: string;
  /** Of all that, and of the names and texts of the config files. */
  readonly sha256: string;
}

export const SUMMARY = 'state.json';

/**
 * Reads the last valid config that this node has kept. The directory is laid out as a projected volume, so that `check` and
 * other commands read it as --config-dir.
 *
 * @param node what tells this node from others, also from clones of its disk
 * @param limit how many bytes all config files together may have
 * @returns undefined if there is none
 * @throws {SystemError} if what is there is not to be trusted, or is not of this node
 */
export async function readLastValid(
  dir: string,
  node: string,
  limit: number,
): Promise<LastValid | undefined> {
  try {
    if (!isThere(dir)) return undefined;
    requireOwn(dir);
    const id = dataLink(dir);
    if (id === undefined) return undefined;
    const { configFiles, problems } = await readVolumeVersion(dir, true, limit);
    const [first] = problems;
    if (first !== undefined) throw new SystemError(first.message);
    const { sha256, ...summary } = readSummary(join(dir, id, SUMMARY));
    if (summary.format !== 1) throw new SystemError('it is of another version of the agent');
    if (sha256 !== digest(configFiles, summary)) throw new SystemError('its checksum is wrong');
    if (summary.node !== node) throw new SystemError('it is of another node');
    const { since } = summary;
    return { configFiles, since };
  } catch (error) {
    if (error instanceof ExhaustedError) throw error;
    throw failure(`cannot use the last valid config in ${printable(dir)}`, error);
  }
}

export function isThere(dir: string): boolean {
  return lstatSync(dir, { throwIfNoEntry: false }) !== undefined;
}

/** Nobody else may have written what the kernel gets. */
export function requireOwn(dir: string): void {
  const { uid, mode } = lstatSync(dir);
  if ((mode & 0o170_000) !== 0o040_000) throw new SystemError('it is not a directory');
  if (uid !== process.geteuid?.()) throw new SystemError(`it belongs to the user ${uid}`);
  if ((mode & 0o022) !== 0) throw new SystemError('other users may write to it');
}

const MOST_SUMMARY_BYTES = 65_536;

function readSummary(path: string): LastValidSummary {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  // To read a pipe or a device could take for ever.
  if (stats?.isFile() !== true) throw new SystemError(`${SUMMARY} is not there, or not a regular file`);
  if (stats.size > MOST_SUMMARY_BYTES) throw new SystemError(`${SUMMARY} is too large`);
  const text = readFileSync(path, 'utf8');
  try {
    return { ...JSON.parse(text) };
  } catch {
    throw new SystemError(`${SUMMARY} is damaged`);
  }
}

export function digest(
  configFiles: readonly ConfigFile[],
  summary: Omit<LastValidSummary, 'sha256'>,
): string {
  const texts = configFiles.map(({ name, text }) => [name, text]);
  return createHash('sha256')
    .update(JSON.stringify([summary, texts]))
    .digest('hex');
}

export function failure(what: string, error: unknown): SystemError {
  return new SystemError(`${what}: ${errorMessage(error).replace(/, [a-z]+(?: '.*)?$/s, '')}`);
}
