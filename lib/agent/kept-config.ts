import { constants, type Stats } from 'node:fs';
import { lstat, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { byteOrder, type ConfigFile, decodeFile, isPossibleConfigFileName } from '../config/config-file.ts';
import { MAX_BYTES } from '../config/limits.ts';
import type { Notices } from '../log/notices.ts';
import { errorCode, errorMessage, SystemError } from '../text/error.ts';
import { prettyJson, printable } from '../text/escape.ts';

/** The config that a run of the agent has kept on this node: the one that it has applied last. */
export interface KeptConfig {
  readonly configFiles: readonly ConfigFile[];
  /** When it was written, as in RFC 3339. */
  readonly since: string;
}

const NAME = 'last-valid.json';
/** A file that an interrupted writing has left. */
const NEW_NAME = `${NAME}.new`;

/** In memory it takes several times as much. */
const MOST_BYTES = 4 * MAX_BYTES;

/**
 * The config in use, in a file that outlives the process and a reboot: a ConfigMap, which `check -f` and other commands read.
 * What cannot be read or written is told, and does not stop the agent.
 */
export class KeptConfigFile {
  readonly #dir: string;
  readonly #notices: Notices;
  #wanted: readonly ConfigFile[] | undefined;
  #isWritten = Promise.resolve(true);

  constructor(dir: string, notices: Notices) {
    this.#dir = dir;
    this.#notices = notices;
  }

  /** Keeps a config for the next run, unless that is done; returns whether the file holds it. */
  keep(configFiles: readonly ConfigFile[]): Promise<boolean> {
    if (configFiles !== this.#wanted) {
      this.#wanted = configFiles;
      this.#isWritten = this.#isWritten.then(() => this.#write(configFiles));
    }
    return this.#isWritten;
  }

  async #write(configFiles: readonly ConfigFile[]): Promise<boolean> {
    const failure = await writeKeptConfig(this.#dir, configFiles).then(() => undefined, systemMessage);
    if (failure !== undefined) this.#wanted = undefined;
    const what = `cannot write the last valid config to ${printable(this.#dir)}: ${failure}; correct this, because an agent that restarts while the config is invalid has no other config`;
    this.#notices.warn('state directory', failure === undefined ? [] : [what]);
    return failure === undefined;
  }

  /** The config of an earlier run; undefined if there is none that can be used. */
  async read(): Promise<KeptConfig | undefined> {
    try {
      requireOwn(await lstat(this.#dir), 'isDirectory');
      // To open a pipe must not wait for a writer.
      const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
      await using file = await open(join(this.#dir, NAME), flags);
      const stats = await file.stat();
      requireOwn(stats, 'isFile');
      if (stats.size > MOST_BYTES) throw new SystemError(`${NAME} is larger than ${MOST_BYTES} bytes`);
      return { configFiles: configFilesOf(await file.readFile('utf8')), since: stats.mtime.toISOString() };
    } catch (error) {
      const what = `cannot use the last valid config in ${printable(this.#dir)}: ${systemMessage(error)}`;
      if (errorCode(error) !== 'ENOENT') this.#notices.warn('last valid config', [what]);
      return undefined;
    }
  }
}

/** The old file stays, or the new one is there, whole: also if the process is killed or the machine stops in between. */
async function writeKeptConfig(dir: string, configFiles: readonly ConfigFile[]): Promise<void> {
  const data = Object.fromEntries(configFiles.map(({ name, text }) => [name, text]));
  const text = prettyJson({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'last-valid' }, data });
  if (Buffer.byteLength(text) > MOST_BYTES) throw new SystemError(`it is larger than ${MOST_BYTES} bytes`);
  requireOwn(await lstat(dir), 'isDirectory');
  const path = join(dir, NEW_NAME);
  await rm(path, { force: true });
  try {
    await using file = await open(path, 'wx', 0o600);
    await file.writeFile(text);
    await file.sync();
    await rename(path, join(dir, NAME));
  } catch (error) {
    await rm(path, { force: true }).catch(() => {});
    throw error;
  }
  await using directory = await open(dir);
  await directory.sync();
}

function configFilesOf(json: string): readonly ConfigFile[] {
  try {
    const { data }: { readonly data: object } = JSON.parse(json);
    const files = Object.entries(data).map(([name, text]) => {
      const isUsable = isPossibleConfigFileName(name) && Buffer.byteLength(text) <= MAX_BYTES;
      const file = isUsable ? decodeFile(name, Buffer.from(text, 'utf8')) : undefined;
      if (file === undefined || !('text' in file)) throw new TypeError(name);
      return file;
    });
    return files.sort((a, b) => byteOrder(a.name, b.name));
  } catch {
    throw new SystemError(`${NAME} is damaged`);
  }
}

/** Nobody else may have written what the kernel gets. */
function requireOwn(stats: Stats, kind: 'isDirectory' | 'isFile'): void {
  if (!stats[kind]())
    throw new SystemError(`it is not a ${kind === 'isFile' ? 'regular file' : 'directory'}`);
  if (stats.uid !== process.geteuid?.()) throw new SystemError(`it belongs to the user ${stats.uid}`);
  if ((stats.mode & 0o022) !== 0) throw new SystemError('other users may write to it');
}

/**
 * Removes what this class has written.
 *
 * @returns what was removed, in words; undefined if there was nothing
 * @throws {SystemError}
 */
export async function removeKeptConfig(dir: string): Promise<string | undefined> {
  try {
    await rm(join(dir, NEW_NAME), { force: true });
    await rm(join(dir, NAME));
    return `removed the last valid config from ${printable(dir)}`;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw new SystemError(
      `cannot remove the last valid config in ${printable(dir)}: ${systemMessage(error)}`,
    );
  }
}

/** What the system or this file says, without paths; throws any other error. */
function systemMessage(error: unknown): string {
  if (errorCode(error) === undefined && !(error instanceof SystemError)) throw error;
  return errorMessage(error).replace(/, [a-z]+(?: '.*)?$/s, '');
}
