import { constants, type Dirent, readdirSync } from 'node:fs';
import { open, readlink, realpath } from 'node:fs/promises';
import { basename, extname, join, relative, resolve, sep } from 'node:path';
import { byteOrder, isConfigFileName, isNearMiss, nearMissText } from '../config/config-file.ts';
import { entriesOf } from '../config/glob.ts';
import { printable } from '../text/escape.ts';
import {
  collect,
  failed,
  type Inputs,
  joined,
  manifestIn,
  NO_INPUTS,
  readConfigFile,
  readText,
  unreadable,
} from './file.ts';

/**
 * Reads the config files of a directory, and the manifests in it that hold ConfigMaps for the agent. Names that begin with a
 * dot are left out.
 *
 * @param recursive whether to read the directories in it too; links to directories are not followed
 * @param seen the files that were read, by their paths without links: a link may lead to another of them
 */
export async function readTree(root: string, recursive: boolean, seen: Set<string>): Promise<Inputs> {
  const home = await realpath(root);
  const found: Inputs[] = [];
  const list = (dir: string) => {
    try {
      return readdirSync(dir, { withFileTypes: true }).filter(isShown);
    } catch (error) {
      found.push(unreadable(join(root, relative(resolve(root), dir)), error));
      return [];
    }
  };
  const entries = entriesOf(root, [recursive ? '**' : '*'], list, Number.POSITIVE_INFINITY);
  const files = entries.filter(({ dirent }) => !dirent.isDirectory()).map(({ path }) => path);
  for (const path of files.sort(byteOrder))
    found.push(await readFile(join(root, path), home, recursive, seen));
  return joined(found);
}

function isShown({ name }: Dirent): boolean {
  return !name.startsWith('.');
}

function isManifestName(name: string): boolean {
  return /\.(?:ya?ml|json)$/.test(name);
}

/** What a file of a directory holds for the agent. Waits for no pipe, and does not leave home. */
async function readFile(
  path: string,
  home: string,
  isRecursive: boolean,
  seen: Set<string>,
): Promise<Inputs> {
  const name = basename(path);
  const isConfigFile = isConfigFileName(name);
  // A repository may hold sources with such names; a volume does not.
  if (isConfigFile && isRecursive && extname(name) !== '' && !isManifestName(name)) {
    const message = `is not read with -R, because its name ends in ${printable(extname(name))}`;
    return failed('not-a-config-file', path, message, 'name it itself, if it is a config file');
  }
  const other = isNearMiss(name) ? failed('not-a-config-file', path, nearMissText, 'rename it') : NO_INPUTS;
  if (!isConfigFile && !isManifestName(name)) return other;
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    const isRegular = (await file.stat()).isFile();
    // What was opened, not what the name says now (proc(5)).
    const opened = await readlink(`/proc/self/fd/${file.fd}`);
    if (!isRegular || !opened.startsWith(join(home, sep))) {
      const what = isRegular ? 'a link that leads out of the directory' : 'not a regular file';
      const kind = isConfigFile ? 'unreadable' : 'not-a-config-file';
      return failed(kind, path, `is ${what}, and is not read`, 'name it itself, or remove it');
    }
    if (seen.has(opened)) return NO_INPUTS;
    seen.add(opened);
    const bytes = await collect(file.createReadStream({ autoClose: false }));
    if (isConfigFile) return isManifestName(name) ? readText(path, bytes) : readConfigFile(path, bytes);
    return (mentionsAgent(bytes) ? manifestIn(path, bytes) : undefined) ?? other;
  } catch (error) {
    return unreadable(path, error);
  }
}

/** Whether it is worth parsing: most manifests are about something else, and templates of others need not be valid. */
function mentionsAgent(bytes: Buffer): boolean {
  return bytes.includes('apiVersion') && (bytes.includes('ip-masq') || bytes.includes('ipmasq'));
}
