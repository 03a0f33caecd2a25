import { constants, type Dirent, readdirSync } from 'node:fs';
import { open, opendir, readlink, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { byteOrder, type ConfigFile, decodeFile, isConfigFileName } from '../config/config-file.ts';
import { entriesOf } from '../config/glob.ts';
import type { Problem } from '../config/problem.ts';
import { orUndefined, readVolumeVersion } from '../config/read.ts';
import { printable, quote } from '../text/escape.ts';
import {
  collect,
  failed,
  type Inputs,
  joined,
  MAX_INPUT_BYTES,
  manifestOf,
  NO_INPUTS,
  unreadable,
  wholeFile,
} from './file.ts';

/** What is left of the limits that all directories of a command share. */
export class WalkLimits {
  /** Files and directories: more than most repositories have. */
  entries = 100_000;
  bytes = MAX_INPUT_BYTES;
  /** Files that were read, by their paths without links: a link may lead to another of them. */
  readonly seen = new Set<string>();
}

const MAX_DEPTH = 32;

class TooManyEntries extends Error {}

/**
 * Reads a directory as the agent does, and also the manifests in it that hold ConfigMaps. Names that begin with a dot
 * are left out.
 *
 * @param recursive whether to read the directories in it too; links to directories are not followed
 */
export async function readTree(root: string, recursive: boolean, walk: WalkLimits): Promise<Inputs> {
  const found: Inputs[] = [];
  let hasUnreadDirectories = false;
  try {
    const home = await realpath(root);
    const tree = listTree(root, recursive, walk);
    for (const [path, names] of tree) {
      const [dir, depth] = [join(root, path), depthOf(path)];
      if (depth > 0 && !recursive) hasUnreadDirectories = true;
      else if (depth <= MAX_DEPTH)
        found.push(
          await readDirectory(dir, { names, tree, path }, home, recursive, walk).catch((error: unknown) =>
            unreadable(dir, error),
          ),
        );
      else {
        const message = `is more than ${MAX_DEPTH} directories deep, and is not read`;
        found.push(failed('unreadable', dir, message, 'name it itself'));
      }
    }
  } catch (error) {
    if (!(error instanceof TooManyEntries)) throw error;
    found.push(
      failed('unreadable', root, error.message, 'name the directories in it that hold the manifests'),
    );
  }
  return { ...joined(found), hasUnreadDirectories };
}

/**
 * Reads the config directory as the agent does. That it has no config file is a config too: the defaults. But if it has
 * something else to check, it is an error.
 */
export async function readConfigDirectory(dir: string): Promise<Inputs> {
  const { configFiles, problems } = await readVolumeVersion(dir, false);
  const other = configFiles.length + problems.length === 0 ? await firstManifestOrDirectory(dir) : undefined;
  if (other !== undefined)
    return failed(
      'no-config-file',
      dir,
      `has no config file, but ${quote(other)}, which the agent does not read: nothing was checked`,
      `check its manifests with: check -R ${printable(dir)}`,
    );
  return {
    ...NO_INPUTS,
    configFiles: configFiles.map((configFile) => wholeFile(join(dir, configFile.name), configFile)),
    problems: problems.map((one) => within(dir, one)),
  };
}

interface ListedDirectory {
  /** Its manifests. */
  readonly names: readonly string[];
  readonly tree: Tree;
  /** Below the root. */
  readonly path: string;
}

async function readDirectory(
  dir: string,
  { names, tree, path }: ListedDirectory,
  home: string,
  recursive: boolean,
  walk: WalkLimits,
): Promise<Inputs> {
  await (await opendir(dir)).close();
  const { id, configFiles, problems } = await readVolumeVersion(dir, false);
  const manifests: Inputs[] = [];
  for (const name of names)
    if (!isConfigFileName(name)) manifests.push(await readFile(join(dir, name), home, walk));
  const own = configFiles.map((file) => configFileOrManifest(join(dir, file.name), file, id !== undefined));
  const isKnown = ({ at }: Problem) =>
    at?.kind === 'whole-file' &&
    ((recursive && tree.has(join(path, at.file))) ||
      manifests.some(({ manifests: [one] }) => one?.file.name === join(dir, at.file)));
  const others = problems.filter((one) => !isKnown(one)).map((one) => within(dir, one));
  return joined([...own, ...manifests, { ...NO_INPUTS, problems: others }]);
}

/** The manifests of each directory, in byte order, by the path of the directory below the root, which comes first: an empty path. */
type Tree = ReadonlyMap<string, readonly string[]>;

/** Lists a directory. One that cannot be read seems empty; `readDirectory` says why. */
function listTree(root: string, isRecursive: boolean, walk: WalkLimits): Tree {
  const list = (dir: string) => {
    const entries = (orUndefined(() => readdirSync(dir, { withFileTypes: true })) ?? []).filter(isShown);
    walk.entries -= entries.length;
    if (walk.entries < 0) throw new TooManyEntries('has more than 100,000 files and directories');
    return entries;
  };
  const found = entriesOf(root, [isRecursive ? '**' : '*'], list, MAX_DEPTH + 1);
  const tree = new Map<string, string[]>([['', []]]);
  for (const { path, name, dirent } of found) {
    if (dirent.isDirectory()) tree.set(path, tree.get(path) ?? []);
    else if (isManifestName(name)) {
      const directory = path.slice(0, -name.length - 1);
      tree.set(directory, [...(tree.get(directory) ?? []), name]);
    }
  }
  const sorted = [...tree].map(([path, names]) => [path, names.sort(byteOrder)] as const);
  return new Map(sorted.sort(([a], [b]) => byteOrder(inOrder(a), inOrder(b))));
}

/** Compares so that a directory comes before those in it, and these before the next one. */
function inOrder(path: string): string {
  return path.replaceAll(sep, '\0');
}

function depthOf(path: string): number {
  return path === '' ? 0 : path.split(sep).length;
}

async function firstManifestOrDirectory(dir: string): Promise<string | undefined> {
  for await (const entry of await opendir(dir)) if (isOfInterest(entry)) return entry.name;
  return undefined;
}

function isOfInterest(entry: Dirent): boolean {
  return isShown(entry) && (entry.isDirectory() || isManifestName(entry.name));
}

function isShown({ name }: Dirent): boolean {
  return !name.startsWith('.');
}

function isManifestName(name: string): boolean {
  return /\.(?:ya?ml|json)$/.test(name);
}

/** A file that the agent reads. One that is named like a manifest may be one, but not in a volume of the agent. */
function configFileOrManifest(path: string, configFile: ConfigFile, isVolume: boolean): Inputs {
  const mayBeManifest = !isVolume && isManifestName(configFile.name);
  const manifest = mayBeManifest ? manifestOf({ name: path, text: configFile.text }) : undefined;
  return manifest ?? { ...NO_INPUTS, configFiles: [wholeFile(path, configFile)] };
}

/** The ConfigMaps of a file that may be meant for the agent. Waits for no pipe, opens no device, and does not leave home. */
async function readFile(path: string, home: string, walk: WalkLimits): Promise<Inputs> {
  const leftOut = (message: string) =>
    failed('not-a-config-file', path, message, 'name it itself, if it is a manifest');
  try {
    if (!(await stat(path)).isFile()) return leftOut('is not a regular file, and is not read');
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    // What was opened, not what the name says now (proc(5)).
    const opened = await readlink(`/proc/self/fd/${file.fd}`);
    if (!opened.startsWith(join(home, sep)))
      return leftOut('is a link that leads out of the directory, and is not read');
    if (walk.seen.has(opened)) return NO_INPUTS;
    walk.seen.add(opened);
    const bytes = await collect(file.createReadStream({ autoClose: false }), walk.bytes);
    walk.bytes -= bytes.length;
    if (walk.bytes < 0) throw new TooManyEntries('has more than 64 MiB of manifests');
    return mentionsAgent(bytes) ? (manifestIn(path, bytes) ?? NO_INPUTS) : NO_INPUTS;
  } catch (error) {
    return unreadable(path, error);
  }
}

/** Whether it is worth parsing: most manifests are about something else, and templates of others need not be valid. */
function mentionsAgent(bytes: Buffer): boolean {
  return bytes.includes('apiVersion') && (bytes.includes('ip-masq') || bytes.includes('ipmasq'));
}

function manifestIn(path: string, bytes: Buffer): Inputs | undefined {
  const file = decodeFile(path, bytes);
  return 'text' in file ? manifestOf(file) : { ...NO_INPUTS, problems: [file] };
}

/** The problem with a file of the directory, which is named without it. */
function within(dir: string, found: Problem): Problem {
  const { at } = found;
  if (at?.kind === 'whole-file') return { ...found, at: { ...at, file: join(dir, at.file) } };
  if (at?.kind === 'file') return { ...found, at: { ...at, file: join(dir, at.configFile) } };
  return found;
}
