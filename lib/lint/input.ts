import { open, readdir, stat } from 'node:fs/promises';
import { basename, join, normalize, resolve } from 'node:path';
import { DEFAULT_LIMITS, MAX_BYTES } from '../config/limits.ts';
import { type Problem, problem } from '../config/problem.ts';
import { readGeneration } from '../config/read.ts';
import {
  byteOrder,
  configLimitProblem,
  decodeSource,
  Locator,
  type Source,
  STDIN_NAME,
} from '../config/source.ts';
import { errorCode, errorMessage } from '../text/error.ts';
import { printable, quote } from '../text/escape.ts';
import { readManifest } from './manifest.ts';

/** Sources, from wherever people keep them. */
export interface Inputs {
  /** In byte order of their names. */
  readonly sources: readonly Source[];
  /** The manifests that problems may point into. */
  readonly manifests: readonly Source[];
  readonly problems: readonly Problem[];
}

/** What one path holds. */
interface Input extends Inputs {
  /** Whether no source at all is a config too, as it is in a config directory. */
  readonly mayBeEmpty: boolean;
}

const NOTHING: Input = { sources: [], manifests: [], problems: [], mayBeEmpty: false };

/** The path that stands for standard input. */
const STDIN = '-';

/** More than all ConfigMaps of most clusters, and little enough to be read at once. */
const MAX_INPUT_BYTES = 64 * 1024 * 1024;

/**
 * Reads config directories, config files and manifests, as if all that they hold were mounted on one node.
 *
 * @param stdin called at most once
 * @param limit how many bytes all sources together may have
 */
export async function readInputs(
  paths: readonly string[],
  stdin: () => AsyncIterable<Buffer>,
  limit: number = DEFAULT_LIMITS.configLimit,
): Promise<Inputs> {
  const inputs: Input[] = [];
  const known = new Set<string>(); // a file may be named by itself and through its directory
  const distinct = new Map(paths.map((path) => [path === STDIN ? STDIN : resolve(path), path]));
  for (const path of distinct.values()) {
    const input = await readInput(path, stdin, limit);
    inputs.push({ ...input, sources: input.sources.filter((source) => !known.has(placeOf(source))) });
    for (const source of input.sources) known.add(placeOf(source));
  }
  const all = inputs.flatMap((input) => input.sources).sort((a, b) => byteOrder(a.name, b.name));
  const sources = withinLimit(all, limit);
  const next = all[sources.length];
  const problems = [
    ...inputs.flatMap((input) => input.problems),
    ...(next === undefined ? [] : [configLimitProblem({ kind: 'whole-file', source: fileOf(next) }, limit)]),
    ...sameNames(sources),
    ...nothingFound(paths, inputs),
  ];
  return { sources, manifests: inputs.flatMap(({ manifests }) => manifests), problems };
}

/** The first sources that together have at most so many bytes. */
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

async function readInput(path: string, stdin: () => AsyncIterable<Buffer>, limit: number): Promise<Input> {
  try {
    if (path === STDIN) {
      const bytes = await collect(stdin());
      // No byte at all is what a program before the pipe leaves if it fails.
      return bytes.length === 0 ? NOTHING : readText(STDIN_NAME, bytes);
    }
    if ((await stat(path)).isDirectory()) return await readDirectory(path, limit);
    return readText(normalize(path), await collect((await open(path)).createReadStream()));
  } catch (error) {
    if (!(error instanceof Error) || errorCode(error) === undefined) throw error; // a bug of this program
    return failed(
      path === STDIN ? STDIN_NAME : path,
      `cannot be read: ${printable(error.message)}`,
      'name a file or directory that is there and readable',
    );
  }
}

/** The text of one file that is neither a source nor a manifest, of at most 1 MiB; a problem if it cannot be read. */
export async function readFile(path: string): Promise<Source | Problem> {
  try {
    const bytes = await collect((await open(path)).createReadStream(), MAX_BYTES);
    if (bytes.length > MAX_BYTES) return unreadable(path, 'is larger than 1 MiB', 'split it');
    return decodeSource(normalize(path), bytes);
  } catch (error) {
    if (errorCode(error) === undefined) throw error; // a bug of this program
    return unreadable(
      path,
      `cannot be read: ${printable(errorMessage(error))}`,
      'name a file that is there and readable',
    );
  }
}

/** All bytes, also of a pipe, which has no size; of a longer stream more than the limit, but not all. */
async function collect(stream: AsyncIterable<Buffer>, limit = MAX_INPUT_BYTES): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > limit) break;
  }
  return Buffer.concat(chunks);
}

async function readDirectory(dir: string, limit: number): Promise<Input> {
  const { sources, problems } = await readGeneration(dir, false, limit);
  const nothing = sources.length === 0 && problems.length === 0;
  return {
    sources: sources.map((source) => wholeFile(join(dir, source.name), source)),
    manifests: [],
    mayBeEmpty: true,
    problems: nothing
      ? await manifestsIn(dir)
      : problems.map((problem) => ({ ...problem, ...(problem.at && { at: within(dir, problem.at) }) })),
  };
}

/** A warning for a directory of manifests: without it, the defaults look like what the manifests say. */
async function manifestsIn(dir: string): Promise<readonly Problem[]> {
  const [first] = (await readdir(dir)).filter((name) => /\.(?:ya?ml|json)$/.test(name)).sort(byteOrder);
  if (first === undefined) return [];
  const message = `has no source; of a directory only files ip-masq-* are read, and not ${quote(first)}`;
  const remedy = 'if they are manifests, name the files themselves';
  return [problem('not-a-source', { at: { kind: 'whole-file', source: dir }, message, remedy })];
}

function within(dir: string, at: NonNullable<Problem['at']>): NonNullable<Problem['at']> {
  switch (at.kind) {
    case 'whole-file':
      return { ...at, source: join(dir, at.source) };
    case 'file':
      return { ...at, file: join(dir, at.source) };
    case 'built-in':
      return at;
  }
}

function readText(path: string, bytes: Buffer): Input {
  if (bytes.length > MAX_INPUT_BYTES)
    return failed(path, 'is larger than 64 MiB', 'check fewer manifests at once');
  const whole = decodeSource(path, bytes);
  if (!('text' in whole)) return { ...NOTHING, problems: [whole] };
  const manifest = readManifest(whole);
  if (manifest !== undefined) return { ...NOTHING, ...manifest, manifests: [whole] };
  if (bytes.length > MAX_BYTES)
    return failed(path, `is larger than 1 MiB (${bytes.length} bytes)`, 'split it, or use wider CIDRs');
  return { ...NOTHING, sources: [wholeFile(path, { ...whole, name: basename(path) })] };
}

function wholeFile(path: string, source: Source): Source {
  const file = { name: path, text: source.text };
  return { ...source, found: { file, line: 1, column: 1, lineByLine: true } };
}

function failed(path: string, message: string, remedy: string): Input {
  return { ...NOTHING, problems: [unreadable(path, message, remedy)] };
}

function unreadable(path: string, message: string, remedy: string): Problem {
  return problem('unreadable', { at: { kind: 'whole-file', source: path }, message, remedy });
}

function nameOf(path: string): string {
  return path === STDIN ? STDIN_NAME : printable(path);
}

/** An empty config directory means the defaults; an empty list of manifests, that nothing was checked. */
function nothingFound(paths: readonly string[], inputs: readonly Input[]): readonly Problem[] {
  const isError = ({ severity }: Problem) => severity === 'error';
  const isAnswered = inputs.some(
    ({ mayBeEmpty, sources, problems }) => mayBeEmpty || sources.length > 0 || problems.some(isError),
  );
  if (isAnswered) return [];
  const message = `no source in ${paths.map(nameOf).join(', ')}: nothing was checked`;
  const remedy = 'name a config file, or a manifest with a ConfigMap that has a key beginning with ip-masq-';
  return [problem('no-source', { message, remedy })];
}

/** A volume holds one file of each name. */
function sameNames(sources: readonly Source[]): readonly Problem[] {
  return sources.flatMap((source, index): Problem[] => {
    const before = sources[index - 1];
    if (before?.name !== source.name) return [];
    return [
      problem('same-name', {
        at: new Locator(source).origin(0),
        other: new Locator(before).origin(0),
        message: `two sources are named ${printable(source.name)}, of which a volume can hold one`,
        remedy: 'rename one; or, if they are meant for different nodes, check them one by one',
      }),
    ];
  });
}
