import {
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { join, resolve, sep } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ExhaustedError, errorCode, errorMessage, isExhausted, SystemError } from '../text/error.ts';
import { printable } from '../text/escape.ts';
import {
  byteOrder,
  CANDIDATE_PATTERNS,
  type ConfigFile,
  decodeFile,
  isConfigFileName,
  nearMissText,
} from './config-file.ts';
import { entriesOf } from './glob.ts';
import { MAX_BYTES, MAX_CONFIG_FILES } from './limits.ts';
import { fileProblem, type Problem, problem } from './problem.ts';

/** The config files of one volume version, and what could not be read of it. */
export interface VolumeVersion {
  /** What `..data` pointed at; undefined for a plain directory. */
  readonly id: string | undefined;
  /** In byte order of their names. */
  readonly configFiles: readonly ConfigFile[];
  readonly problems: readonly Problem[];
}

/** The link that kubelet's AtomicWriter swaps; see pkg/volume/util/atomic_writer.go in Kubernetes. */
export const DATA_LINK = '..data';

const MAX_ATTEMPTS = 20;
const PAUSE_MS = 10;

/**
 * How long a plain directory and the files in it must stay unchanged until they are read, because a program may write in steps;
 * and how often the reader waits for that: files that are replaced all the time, each by a whole one, are read too.
 */
const QUIET_MS = 100;
const QUIET_ATTEMPTS = 5;

/** The directory changed under the reader: what was read so far may mix two volume versions. */
class ChangedWhileRead extends Error {
  readonly pauseMs: number;

  constructor(pauseMs = PAUSE_MS) {
    super();
    this.pauseMs = pauseMs;
  }
}

/** `..data` is gone, or does not lead to a volume version. */
class BrokenVolume extends Error {}

/**
 * Reads every config file of one volume version. Two volume versions are never mixed: when `..data` moves, or a file
 * changes while it is read, everything is read again. The reading itself is synchronous: small files in memory or on
 * the node's disk take microseconds, handing each step of each to a thread takes ten times as long.
 *
 * @param projected whether the last read found `..data`: it must not have gone since.
 * @param isPatient whether to read a plain directory that has just changed again
 * @throws {SystemError} if the process has too few files or too little memory (`ExhaustedError`), or no /proc
 */
export async function readVolumeVersion(
  dir: string,
  projected: boolean,
  isPatient = false,
): Promise<VolumeVersion> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return readOnce(dir, projected, isPatient && attempt <= QUIET_ATTEMPTS);
    } catch (error) {
      if (!(error instanceof ChangedWhileRead || error instanceof BrokenVolume)) requireConfigError(error);
      if (!(error instanceof ChangedWhileRead) || attempt === MAX_ATTEMPTS) return failedVersion(dir, error);
      await delay(error.pauseMs);
    }
  }
}

function readOnce(dir: string, projected: boolean, waits: boolean): VolumeVersion {
  const id = dataLink(dir);
  if (id === undefined && projected) throw new BrokenVolume('is gone from');
  const home = realpathSync.native(dir);
  const paths = id === undefined ? listCandidates(dir) : listVolume(dir, versionDir(home, id));
  const { configFiles, failures } = readConfigFiles(paths.filter(isConfigFile), home);
  if (dataLink(dir) !== id) throw new ChangedWhileRead();
  if (id === undefined && waits) requireQuiet([dir, ...paths.map(({ path }) => path)]);

  const nearMisses = paths
    .filter((path) => !isConfigFile(path))
    .map(({ name }) => fileProblem('not-a-config-file', name, nearMissText, 'rename it'));
  return { id, configFiles, problems: [...failures, ...nearMisses] };
}

function readConfigFiles(candidates: readonly CandidatePath[], home: string) {
  const configFiles: ConfigFile[] = [];
  const failures: Problem[] = [];
  for (const [index, path] of candidates.entries()) {
    if (index === MAX_CONFIG_FILES) {
      const message = `is beyond the limit of ${MAX_CONFIG_FILES} config files, and is not read`;
      failures.push(fileProblem('unreadable', path.name, message, 'join config files'));
      break;
    }
    const read = readConfigFile(path, home);
    if ('text' in read) configFiles.push(read);
    else failures.push(read);
  }
  return { configFiles, failures };
}

/** Milliseconds since config files, or what the directory holds, have changed last. A clock that was set in between falsifies them. */
export function ageOf(dir: string, configFiles: readonly ConfigFile[]): number {
  return Math.max(0, Math.min(...agesOf([dir, ...configFiles.map(({ name }) => join(dir, name))])));
}

function agesOf(paths: readonly string[]): readonly number[] {
  const now = Date.now();
  return paths.map((path) => now - (orUndefined(() => statSync(path).mtimeMs) ?? 0));
}

function requireQuiet(paths: readonly string[]): void {
  // A clock that was set back makes a file seem to be of the future.
  const quiet = Math.min(...agesOf(paths).map(Math.abs));
  if (quiet < QUIET_MS) throw new ChangedWhileRead(Math.ceil(QUIET_MS - quiet));
}

function isConfigFile({ name }: CandidatePath): boolean {
  return isConfigFileName(name);
}

/** The volume version that `..data` names now; undefined if there is no such link. */
function dataLink(dir: string): string | undefined {
  try {
    return readlinkSync(join(dir, DATA_LINK));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * The directory that `..data` names. kubelet removes it only after it has swapped `..data`: one that is
 * missing while `..data` still names it stays missing.
 */
function versionDir(home: string, id: string): string {
  const version = orUndefined(() => realpathSync.native(resolve(home, id) + sep));
  if (version?.startsWith(home + sep)) return version;
  if (dataLink(home) !== id) throw new ChangedWhileRead();
  throw new BrokenVolume(version === undefined ? 'leads to no directory in' : 'leads out of');
}

interface CandidatePath {
  readonly name: string;
  readonly path: string;
}

/**
 * The files of the volume version, and what else of that name stands beside `..data`. The visible links into
 * `..data` are passed over: kubelet adds and removes them only after the swap, so they lag behind it.
 */
function listVolume(dir: string, version: string): readonly CandidatePath[] {
  const beside = listCandidates(dir).filter((entry) => !isDataLink(entry));
  return [...listCandidates(version), ...beside].sort(byName);
}

/**
 * What of a directory may be config files or near misses, whatever kind of file it is, in byte order: of both the first, at
 * least one more than are read, if there is one. 50,000 names cost 20 MB.
 */
function listCandidates(dir: string): readonly CandidatePath[] {
  const names = matchingNames(dir);
  const first = (some: readonly string[]) => some.toSorted(byteOrder).slice(0, MAX_CONFIG_FILES + 1);
  const configFiles = first(names.filter(isConfigFileName));
  const nearMisses = first(names.filter((name) => !isConfigFileName(name)));
  return [...configFiles, ...nearMisses].map((name) => ({ name, path: join(dir, name) })).sort(byName);
}

/** The names that match, by all names: of the last volume version, and of the directory beside it. */
const known = new Map<string, readonly string[]>();

/** To match the same names again at each resync is most of what an idle agent does. */
function matchingNames(dir: string): readonly string[] {
  const entries = listOrRetry(dir);
  const all = entries.map(({ name }) => name).join('/');
  const before = known.get(all);
  if (before !== undefined) return before;
  const names = entriesOf(dir, CANDIDATE_PATTERNS, () => entries).map(({ name }) => name);
  if (known.size > 1) known.clear();
  known.set(all, names);
  return names;
}

/** A directory that has gone since is no empty one, which would be a config without files. */
function listOrRetry(dir: string): readonly Dirent[] {
  try {
    return readdirSync(dir, { withFileTypes: true });
  } catch (error) {
    throw errorCode(error) === 'ENOENT' ? new ChangedWhileRead() : error;
  }
}

function isDataLink({ name, path }: CandidatePath): boolean {
  return orUndefined(() => readlinkSync(path)) === join(DATA_LINK, name);
}

function byName(a: CandidatePath, b: CandidatePath): number {
  return byteOrder(a.name, b.name);
}

function readConfigFile(candidate: CandidatePath, home: string): ConfigFile | Problem {
  const { name, path } = candidate;
  try {
    const read = readRegular(path, home);
    return Buffer.isBuffer(read) ? decodeFile(name, read) : fileProblem('unreadable', name, ...read);
  } catch (error) {
    return fileProblem('unreadable', name, ...unreadableReason(error, candidate));
  }
}

/** Why something named like a config file cannot be read as one, and what to do. */
type Unreadable = readonly [message: string, remedy: string];

/** The bytes of a regular file in the config directory, all from one moment. */
function readRegular(path: string, home: string): Buffer | Unreadable {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const before = fstatSync(file);
    if (!before.isFile()) return ['is not a regular file', 'remove it, or mount a file in its place'];
    // What was opened, not what the name says now: it cannot be swapped in between (proc(5)).
    const opened = openedPath(file);
    if (!opened.startsWith(home + sep))
      return ['is a link that leads out of the config directory', 'mount the file itself'];
    if (before.size > MAX_BYTES)
      return [`is larger than 1 MiB (${before.size} bytes)`, 'split it, or use wider CIDRs'];
    const bytes = readAtMost(file, before.size + 1);
    const after = fstatSync(file);
    if (bytes.length !== after.size || after.mtimeMs !== before.mtimeMs) throw new ChangedWhileRead();
    return bytes;
  } finally {
    closeSync(file);
  }
}

/** The path of an open file (proc(5)). */
function openedPath(file: number): string {
  try {
    return readlinkSync(`/proc/self/fd/${file}`);
  } catch (error) {
    throw new SystemError(`cannot read the config: ${errorMessage(error)}; mount /proc in the container`);
  }
}

/** Throws an error that is not about the config: a lack of resources, or a bug. */
function requireConfigError(error: unknown): void {
  if (errorCode(error) === undefined) throw error;
  if (isExhausted(error)) throw new ExhaustedError(`cannot read the config: ${errorMessage(error)}`);
}

/** Why a file that was listed cannot be read; throws `ChangedWhileRead` if it has merely gone since. */
function unreadableReason(error: unknown, { name, path }: CandidatePath): Unreadable {
  if (error instanceof ChangedWhileRead) throw error;
  requireConfigError(error);
  if (errorCode(error) !== 'ENOENT')
    return [`cannot be read: ${reasonText(error)}`, 'make it readable for the agent'];
  if (orUndefined(() => readlinkSync(path)) !== undefined)
    return ['is a link to nothing', 'remove it, or mount the file it names'];
  if (name.includes('\uFFFD')) return ['has a name that is not UTF-8', 'rename it'];
  throw new ChangedWhileRead();
}

function readAtMost(file: number, limit: number): Buffer {
  const buffer = Buffer.allocUnsafe(limit);
  let length = 0;
  while (length < limit) {
    const count = readSync(file, buffer, length, limit - length, length);
    if (count === 0) break;
    length += count;
  }
  return buffer.subarray(0, length);
}

function orUndefined<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function directoryProblem(dir: string, error: unknown): Problem {
  const directory = `config directory ${printable(dir)}`;
  const unreadable = (message: string, remedy: string) => problem('unreadable', { message, remedy });
  if (error instanceof ChangedWhileRead) {
    const remedy = 'replace config files by renaming a complete file over the old one';
    return unreadable(`${directory} keeps changing while it is read`, remedy);
  }
  if (error instanceof BrokenVolume) {
    return unreadable(
      `${DATA_LINK} ${error.message} ${directory}: the projected volume is broken`,
      'delete the pod, so that kubelet mounts the volume anew; a container that starts on the empty directory would apply the defaults',
    );
  }
  const missing = errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR';
  return unreadable(
    `${directory} ${missing ? 'is missing or not a directory' : `cannot be read: ${reasonText(error)}`}`,
    'mount the volume there, or name the right directory with --config-dir',
  );
}

/** A volume that cannot be read is a volume, too: it must not be taken for an empty directory later. */
function failedVersion(dir: string, error: unknown): VolumeVersion {
  const id = error instanceof BrokenVolume ? DATA_LINK : orUndefined(() => dataLink(dir));
  return { id, configFiles: [], problems: [directoryProblem(dir, error)] };
}

function reasonText(error: unknown): string {
  return printable(errorMessage(error));
}
