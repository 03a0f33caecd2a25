import { createHash, randomBytes } from 'node:crypto';
import {
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
} from 'node:fs/promises';
import { join } from 'node:path';
import type { State } from '../agent/load.ts';
import type { ConfigFile } from '../config/config-file.ts';
import { DATA_LINK, dataLink, readVolumeVersion } from '../config/read.ts';
import { errorCode, errorMessage, SystemError } from '../text/error.ts';
import { printable } from '../text/escape.ts';

/** What stands beside the texts. */
interface Summary {
  readonly format: 1;
  /** The node that the texts are of. */
  readonly node: string;
  readonly since: string;
  readonly missedAt: readonly (readonly [name: string, at: number])[];
  /** Of all that, and of the names and texts of the config files. */
  readonly sha256: string;
}

const SUMMARY = 'state.json';
const VERSION_PREFIX = '..version-';
const NEW_LINK = '..data_tmp';

/**
 * Reads the last valid config that this node has kept. The directory is laid out as a projected volume, so that `check` and
 * other commands read it as --config-dir.
 *
 * @param node what tells this node from others, also from clones of its disk
 * @param limit how many bytes all config files together may have
 * @returns undefined if there is none
 * @throws {SystemError} if what is there is not to be trusted, or is not of this node
 */
export async function readState(dir: string, node: string, limit: number): Promise<State | undefined> {
  try {
    if ((await lstat(dir).catch(ignoreMissing)) === undefined) return undefined;
    await requireOwn(dir);
    const id = dataLink(dir);
    if (id === undefined) return undefined;
    const { configFiles, problems } = await readVolumeVersion(dir, true, limit);
    const [first] = problems;
    if (first !== undefined) throw new SystemError(first.message);
    const { sha256, ...summary } = await readSummary(join(dir, id, SUMMARY));
    if (summary.format !== 1) throw new SystemError('it is of another version of the agent');
    if (sha256 !== digest(configFiles, summary)) throw new SystemError('its checksum is wrong');
    if (summary.node !== node) throw new SystemError('it is of another node');
    return { configFiles, since: summary.since, missedAt: new Map(summary.missedAt) };
  } catch (error) {
    throw failure(`cannot use the state in ${printable(dir)}`, error);
  }
}

/**
 * Keeps the texts of a valid config, all of them or, with an error, those before: also if the process is killed or the
 * machine stops in between.
 *
 * @throws {SystemError}
 */
export async function writeState(
  dir: string,
  node: string,
  configFiles: readonly ConfigFile[],
  missedAt: State['missedAt'] = new Map(),
): Promise<void> {
  const version = `${VERSION_PREFIX}${randomBytes(6).toString('hex')}`;
  try {
    await requireOwn(dir);
    await removeVersions(dir, dataLink(dir));
    await mkdir(join(dir, version), { mode: 0o700 });
    const summary = { format: 1, node, since: new Date().toISOString(), missedAt: [...missedAt] } as const;
    const checked: Summary = { ...summary, sha256: digest(configFiles, summary) };
    for (const { name, text } of configFiles) await writeSynced(join(dir, version, name), text);
    await writeSynced(join(dir, version, SUMMARY), `${JSON.stringify(checked)}\n`);
    await syncDirectory(join(dir, version));
    await symlink(version, join(dir, NEW_LINK));
    await rename(join(dir, NEW_LINK), join(dir, DATA_LINK));
    await syncDirectory(dir);
    await removeVersions(dir, version);
  } catch (error) {
    await rm(join(dir, version), { recursive: true, force: true }).catch(() => {});
    throw failure(`cannot write the state to ${printable(dir)}`, error);
  }
}

/**
 * Removes what `writeState` has made.
 *
 * @returns whether there was any
 * @throws {SystemError}
 */
export async function removeState(dir: string): Promise<boolean> {
  try {
    if ((await lstat(dir).catch(ignoreMissing)) === undefined) return false;
    const isThere = dataLink(dir) !== undefined;
    await rm(join(dir, DATA_LINK), { force: true });
    await removeVersions(dir, undefined);
    return isThere;
  } catch (error) {
    throw failure(`cannot remove the state in ${printable(dir)}`, error);
  }
}

function ignoreMissing(error: unknown): undefined {
  if (errorCode(error) !== 'ENOENT') throw error;
}

/** Nobody else may have written what the kernel gets. */
async function requireOwn(dir: string): Promise<void> {
  const { uid, mode } = await lstat(dir);
  if ((mode & 0o170_000) !== 0o040_000) throw new SystemError('it is not a directory');
  if (uid !== process.geteuid?.()) throw new SystemError(`it belongs to the user ${uid}`);
  if ((mode & 0o022) !== 0) throw new SystemError('other users may write to it');
}

const MOST_SUMMARY_BYTES = 65_536;

async function readSummary(path: string): Promise<Summary> {
  const stats = await lstat(path).catch(ignoreMissing);
  // To read a pipe or a device could take for ever.
  if (stats?.isFile() !== true) throw new SystemError(`${SUMMARY} is not there, or not a regular file`);
  if (stats.size > MOST_SUMMARY_BYTES) throw new SystemError(`${SUMMARY} is too large`);
  const text = await readFile(path, 'utf8');
  try {
    return { ...JSON.parse(text) };
  } catch {
    throw new SystemError(`${SUMMARY} is damaged`);
  }
}

function digest(configFiles: readonly ConfigFile[], summary: Omit<Summary, 'sha256'>): string {
  const texts = configFiles.map(({ name, text }) => [name, text]);
  return createHash('sha256')
    .update(JSON.stringify([summary, texts]))
    .digest('hex');
}

async function writeSynced(path: string, text: string): Promise<void> {
  await using file = await open(path, 'wx', 0o600);
  await file.writeFile(text);
  await file.sync();
}

async function syncDirectory(dir: string): Promise<void> {
  await using handle: FileHandle = await open(dir);
  await handle.sync();
}

/** Removes what an interrupted writing has left, and the version before. */
async function removeVersions(dir: string, kept: string | undefined): Promise<void> {
  for (const name of await readdir(dir))
    if (name === NEW_LINK || (name.startsWith(VERSION_PREFIX) && name !== kept))
      await rm(join(dir, name), { recursive: true, force: true });
}

function failure(what: string, error: unknown): SystemError {
  return new SystemError(`${what}: ${errorMessage(error).replace(/, [a-z]+(?: '.*)?$/s, '')}`);
}
