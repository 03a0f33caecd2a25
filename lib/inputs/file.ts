import { basename } from 'node:path';
import { type ConfigFile, decodeFile } from '../config/config-file.ts';
import { MAX_BYTES } from '../config/limits.ts';
import { fileProblem, type Problem, type ProblemKind } from '../config/problem.ts';
import { errorCode, errorMessage } from '../text/error.ts';
import { printable } from '../text/escape.ts';
import { type Manifest, readManifest } from './manifest.ts';

/** Config files, from wherever people keep them. */
export interface Inputs {
  /** In byte order of their names, once all are read. */
  readonly configFiles: readonly ConfigFile[];
  /** What they hold is not among the config files until all are read: one may say how another is mounted. */
  readonly manifests: readonly Manifest[];
  readonly problems: readonly Problem[];
}

export const NO_INPUTS: Inputs = { configFiles: [], manifests: [], problems: [] };

/** More than all ConfigMaps of most clusters, and little enough to be read at once. */
const MAX_INPUT_BYTES = 64 * 1024 * 1024;

/** What a file holds that people name: the config files of a manifest, or itself as a config file. */
export function readText(path: string, bytes: Buffer): Inputs {
  return manifestIn(path, bytes) ?? readConfigFile(path, bytes);
}

/** What a manifest holds; undefined if the file is not one. */
export function manifestIn(path: string, bytes: Buffer): Inputs | undefined {
  if (bytes.length > MAX_INPUT_BYTES)
    return failed('unreadable', path, 'is larger than 64 MiB', 'check fewer manifests at once');
  const file = decodeFile(path, bytes);
  if (!('text' in file)) return { ...NO_INPUTS, problems: [file] };
  const manifest = readManifest(file);
  return manifest && { ...NO_INPUTS, manifests: [manifest] };
}

/** The file as a config file of its own name. */
export function readConfigFile(path: string, bytes: Buffer): Inputs {
  if (bytes.length > MAX_BYTES) {
    const message = `is larger than 1 MiB (${bytes.length} bytes)`;
    return failed('unreadable', path, message, 'split it, or use wider CIDRs');
  }
  const file = decodeFile(path, bytes);
  if (!('text' in file)) return { ...NO_INPUTS, problems: [file] };
  return { ...NO_INPUTS, configFiles: [wholeFile(path, { ...file, name: basename(path) })] };
}

export function joined(parts: readonly Inputs[]): Inputs {
  return {
    configFiles: parts.flatMap(({ configFiles }) => configFiles),
    manifests: parts.flatMap(({ manifests }) => manifests),
    problems: parts.flatMap(({ problems }) => problems),
  };
}

/** A config file that is a file by itself. */
function wholeFile(path: string, configFile: ConfigFile): ConfigFile {
  const file = { name: path, text: configFile.text };
  return { ...configFile, embeddedIn: { file, line: 1, column: 1, lineByLine: true } };
}

/** Nothing but a problem with a path as a whole. */
export function failed(kind: ProblemKind, path: string, message: string, remedy: string): Inputs {
  return { ...NO_INPUTS, problems: [fileProblem(kind, path, message, remedy)] };
}

/** The system's reason why a path cannot be read; throws an error that the system does not know. */
export function unreadableProblem(path: string, error: unknown): Problem {
  if (errorCode(error) === undefined) throw error; // a bug of this program
  const message = `cannot be read: ${printable(errorMessage(error))}`;
  return fileProblem('unreadable', path, message, 'name a file or directory that is there and readable');
}

export function unreadable(path: string, error: unknown): Inputs {
  return { ...NO_INPUTS, problems: [unreadableProblem(path, error)] };
}

/** All bytes, also of a pipe, which has no size; of a longer stream more than the limit, but not all. */
export async function collect(
  stream: AsyncIterable<Buffer>,
  limit: number = MAX_INPUT_BYTES,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > limit) break;
  }
  return Buffer.concat(chunks);
}
