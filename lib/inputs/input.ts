import type { Stats } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import { normalize, resolve } from 'node:path';
import { DEFAULT_LIMITS, MAX_BYTES } from '../config/limits.ts';
import { fileProblem, type Problem, problem } from '../config/problem.ts';
import {
  byteOrder,
  configLimitProblem,
  decodeSource,
  originIn,
  type Source,
  STDIN_NAME,
} from '../config/source.ts';
import { printable } from '../text/escape.ts';
import { type ReadOptions, readConfigDirectory, readTree, Walk } from './directory.ts';
import {
  collect,
  failed,
  type Inputs,
  joined,
  NOTHING,
  readText,
  unreadable,
  unreadableProblem,
} from './file.ts';

const STDIN = '-';

/**
 * Reads config files, manifests and directories of both, as if all that they hold were mounted on one node. It is an
 * error if they hold no source.
 *
 * @param stdin called at most once
 */
export async function readInputs(
  paths: readonly string[],
  stdin: () => AsyncIterable<Buffer>,
  { limit = DEFAULT_LIMITS.configLimit, recursive = false }: Partial<ReadOptions> = {},
): Promise<Inputs> {
  const inputs: Inputs[] = [];
  const known = new Set<string>(); // a file may be named by itself and through its directory
  const distinct = new Map(paths.map((path) => [path === STDIN ? STDIN : resolve(path), path]));
  const walk = new Walk();
  for (const path of distinct.values()) {
    const input = await readInput(path, stdin, { limit, recursive }, walk);
    inputs.push({ ...input, sources: input.sources.filter((source) => !known.has(placeOf(source))) });
    for (const source of input.sources) known.add(placeOf(source));
  }
  return together([...inputs, ...nothingFound(paths, inputs)], limit);
}

/** Reads the config directory as the agent does: without a source, the defaults apply. */
export async function readAgentInputs(dir: string, limit: number): Promise<Inputs> {
  return together([await readConfigDirectory(dir, limit)], limit);
}

/** All inputs as one config. */
function together(inputs: readonly Inputs[], limit: number): Inputs {
  const { sources: found, manifests, problems } = joined(inputs);
  const all = found.toSorted((a, b) => byteOrder(a.name, b.name));
  const sources = withinLimit(all, limit);
  const next = all[sources.length];
  return {
    sources,
    manifests,
    problems: [
      ...problems,
      ...(next === undefined ? [] : [configLimitProblem(fileOf(next), limit)]),
      ...sameNames(sources),
    ],
  };
}

function withinLimit(sources: readonly Source[], limit: number): readonly Source[] {
  let bytes = 0;
  const end = sources.findIndex(({ text }) => {
    bytes += Buffer.byteLength(text);
    return bytes > limit;
  });
  return end === -1 ? sources : sources.slice(0, end);
}

function fileOf({ name, found }: Source): string {
  return found?.file.name ?? name;
}

function placeOf(source: Source): string {
  return JSON.stringify([resolve(fileOf(source)), source.name]);
}

async function readInput(
  path: string,
  stdin: () => AsyncIterable<Buffer>,
  options: ReadOptions,
  walk: Walk,
): Promise<Inputs> {
  try {
    if (path === STDIN) {
      const bytes = await collect(stdin());
      // No byte at all is what a program before the pipe leaves if it fails.
      return bytes.length === 0 ? NOTHING : readText(STDIN_NAME, bytes);
    }
    const found = await stat(path);
    if (found.isDirectory()) return await readTree(path, options, walk);
    if (await waits(path, found)) return failed(path, ...NOT_A_FILE);
    return readText(normalize(path), await collect((await open(path)).createReadStream()));
  } catch (error) {
    return unreadable(nameOf(path), error);
  }
}

/** The text of one file that is neither a source nor a manifest, of at most 1 MiB; a problem if it cannot be read. */
export async function readFile(path: string): Promise<Source | Problem> {
  try {
    if (await waits(path, await stat(path))) return fileProblem(path, ...NOT_A_FILE);
    const bytes = await collect((await open(path)).createReadStream(), MAX_BYTES);
    if (bytes.length > MAX_BYTES) return fileProblem(path, 'is larger than 1 MiB', 'split it');
    return decodeSource(normalize(path), bytes);
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
  const { sources, problems } = joined(inputs);
  if (sources.length > 0 || problems.some(({ severity }) => severity === 'error')) return [];
  const names = paths.map((path) => printable(nameOf(path))).join(', ');
  const message = `no source in ${names}: nothing was checked`;
  const deeper = inputs.some(({ hasMore }) => hasMore) ? 'use -R to look into its directories too, or ' : '';
  const remedy = `${deeper}name a config file, or a manifest with a ConfigMap that has a key beginning with ip-masq-`;
  return [{ ...NOTHING, problems: [problem('no-source', { message, remedy })] }];
}

/** A volume holds one file of each name. */
function sameNames(sources: readonly Source[]): readonly Problem[] {
  return sources.flatMap((source, index): Problem[] => {
    const before = sources[index - 1];
    if (before?.name !== source.name) return [];
    return [
      problem('same-name', {
        at: originIn(source, 0),
        other: originIn(before, 0),
        message: `two sources are named ${printable(source.name)}, of which a volume can hold one`,
        remedy: 'rename one; or, if they are meant for different nodes, check them one by one',
      }),
    ];
  });
}
