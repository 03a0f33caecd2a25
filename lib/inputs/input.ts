import type { Stats } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import { normalize, resolve } from 'node:path';
import { byteOrder, type ConfigFile, decodeFile, originIn, STDIN_NAME } from '../config/config-file.ts';
import { MAX_BYTES } from '../config/limits.ts';
import { fileProblem, type Problem, problem } from '../config/problem.ts';
import { printable } from '../text/escape.ts';
import { readConfigDirectory, readTree, WalkLimits } from './directory.ts';
import {
  collect,
  failed,
  type Inputs,
  joined,
  NO_INPUTS,
  readText,
  unreadable,
  unreadableProblem,
} from './file.ts';

const STDIN = '-';

/**
 * Reads config files, manifests and directories of both, as if all that they hold were mounted on one node. It is an
 * error if they hold no config file.
 *
 * @param stdin called at most once
 */
export async function readInputs(
  paths: readonly string[],
  stdin: () => AsyncIterable<Buffer>,
  recursive = false,
): Promise<Inputs> {
  const inputs: Inputs[] = [];
  const known = new Set<string>(); // a file may be named by itself and through its directory
  const distinct = new Map(paths.map((path) => [path === STDIN ? STDIN : resolve(path), path]));
  const walk = new WalkLimits();
  for (const path of distinct.values()) {
    const input = await readInput(path, stdin, recursive, walk);
    inputs.push({ ...input, configFiles: input.configFiles.filter((one) => !known.has(placeOf(one))) });
    for (const configFile of input.configFiles) known.add(placeOf(configFile));
  }
  return together([...inputs, ...nothingFound(paths, inputs)]);
}

/** Reads the config directory as the agent does: without a config file, the defaults apply. */
export async function readAgentInputs(dir: string): Promise<Inputs> {
  return together([await readConfigDirectory(dir)]);
}

/** All inputs as one config. */
function together(inputs: readonly Inputs[]): Inputs {
  const { configFiles: found, manifests, problems } = joined(inputs);
  const configFiles = found.toSorted((a, b) => byteOrder(a.name, b.name));
  return { configFiles, manifests, problems: [...problems, ...sameNames(configFiles)] };
}

function fileOf({ name, embeddedIn }: ConfigFile): string {
  return embeddedIn?.file.name ?? name;
}

function placeOf(configFile: ConfigFile): string {
  return JSON.stringify([resolve(fileOf(configFile)), configFile.name]);
}

async function readInput(
  path: string,
  stdin: () => AsyncIterable<Buffer>,
  recursive: boolean,
  walk: WalkLimits,
): Promise<Inputs> {
  try {
    if (path === STDIN) {
      const bytes = await collect(stdin());
      // No byte at all is what a program before the pipe leaves if it fails.
      return bytes.length === 0 ? NO_INPUTS : readText(STDIN_NAME, bytes);
    }
    const found = await stat(path);
    if (found.isDirectory()) return await readTree(path, recursive, walk);
    if (await waits(path, found)) return failed('unreadable', path, ...NOT_A_FILE);
    return readText(normalize(path), await collect((await open(path)).createReadStream()));
  } catch (error) {
    return unreadable(nameOf(path), error);
  }
}

/** The text of one file that is neither a config file nor a manifest, of at most 1 MiB; a problem if it cannot be read. */
export async function readFile(path: string): Promise<ConfigFile | Problem> {
  try {
    if (await waits(path, await stat(path))) return fileProblem('unreadable', path, ...NOT_A_FILE);
    const bytes = await collect((await open(path)).createReadStream(), MAX_BYTES);
    if (bytes.length > MAX_BYTES) return fileProblem('unreadable', path, 'is larger than 1 MiB', 'split it');
    return decodeFile(normalize(path), bytes);
  } catch (error) {
    return unreadableProblem(path, error);
  }
}

const NOT_A_FILE = ['is not a file', 'name a file or a directory, or - for standard input'] as const;

/** Whether opening it waits for a program that writes. Pipes without a name, such as `<(…)` in bash, are open already. */
async function waits(path: string, found: Stats): Promise<boolean> {
  return found.isFIFO() && (await realpath(path).catch(() => undefined)) !== undefined;
}

function nameOf(path: string): string {
  return path === STDIN ? STDIN_NAME : path;
}

function nothingFound(paths: readonly string[], inputs: readonly Inputs[]): readonly Inputs[] {
  const { configFiles, problems } = joined(inputs);
  if (configFiles.length > 0 || problems.some(({ severity }) => severity === 'error')) return [];
  const names = paths.map((path) => printable(nameOf(path))).join(', ');
  const message = `no config file in ${names}: nothing was checked`;
  const deeper = inputs.some(({ hasUnreadDirectories }) => hasUnreadDirectories)
    ? 'use -R to look into its directories too, or '
    : '';
  const remedy = `${deeper}name a config file, or a manifest with a ConfigMap that has a key beginning with ip-masq-`;
  return [{ ...NO_INPUTS, problems: [problem('no-config-file', { message, remedy })] }];
}

/** A volume holds one file of each name. */
function sameNames(configFiles: readonly ConfigFile[]): readonly Problem[] {
  return configFiles.flatMap((configFile, index): Problem[] => {
    const before = configFiles[index - 1];
    if (before?.name !== configFile.name) return [];
    return [
      problem('same-name', {
        at: originIn(configFile, 0),
        other: originIn(before, 0),
        message: `two config files are named ${printable(configFile.name)}, of which a volume can hold one`,
        remedy: 'rename one; or, if they are meant for different nodes, check them one by one',
      }),
    ];
  });
}
