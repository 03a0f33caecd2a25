import { open, readdir, stat } from 'node:fs/promises';
import { basename, join, normalize, resolve } from 'node:path';
import { decodeSource } from '../config/decode.ts';
import type { FileOnly, Problem } from '../config/problem.ts';
import { readGeneration } from '../config/read.ts';
import { byteOrder, Locator, MAX_BYTES, type Source, STDIN_NAME } from '../config/source.ts';
import { errorCode } from '../text/error.ts';
import { printable, quote } from '../text/escape.ts';
import { readManifest } from './manifest.ts';

/** Sources from wherever people keep them. */
export interface Inputs {
  /** In byte order of their names. */
  readonly sources: readonly Source[];
  /** Every text that a problem may point into. */
  readonly texts: readonly Source[];
  readonly problems: readonly Problem[];
}

/** What one path holds. */
interface Input extends Inputs {
  /** Whether no source at all is a config too, as in a config directory. */
  readonly mayBeEmpty: boolean;
}

const NOTHING: Input = { sources: [], texts: [], problems: [], mayBeEmpty: false };

/** The path that stands for standard input. */
const STDIN = '-';

/** More than all ConfigMaps of most clusters, and little enough to be read at once. */
const MAX_INPUT_BYTES = 64 * 1024 * 1024;

/**
 * Reads config directories, config files and manifests, as if all that they hold were mounted on one node.
 *
 * @param stdin called at most once
 */
export async function readInputs(
  paths: readonly string[],
  stdin: () => AsyncIterable<Buffer>,
): Promise<Inputs> {
  const inputs: Input[] = [];
  for (const path of distinct(paths)) inputs.push(withoutKnown(await readInput(path, stdin), inputs));
  const sources = inputs.flatMap((input) => input.sources).sort((a, b) => byteOrder(a.name, b.name));
  const problems = inputs.flatMap((input) => input.problems);
  return {
    sources,
    texts: [...inputs.flatMap((input) => input.texts), ...sources],
    problems: [...problems, ...sameNames(sources), ...nothingFound(paths, inputs)],
  };
}

/** A file may be named by itself and through its directory. */
function withoutKnown(input: Input, before: readonly Input[]): Input {
  const place = ({ name, found }: Source) => `${resolve(found?.file ?? name)}\0${name}`;
  const known = new Set(before.flatMap(({ sources }) => sources.map(place)));
  return { ...input, sources: input.sources.filter((source) => !known.has(place(source))) };
}

/** Each path once, as it was written first. */
function distinct(paths: readonly string[]): readonly string[] {
  const places = new Map<string, string>();
  for (const path of paths) {
    const place = path === STDIN ? STDIN : resolve(path);
    if (!places.has(place)) places.set(place, path);
  }
  return [...places.values()];
}

async function readInput(path: string, stdin: () => AsyncIterable<Buffer>): Promise<Input> {
  try {
    if (path === STDIN) return readStdin(await collect(stdin()));
    if ((await stat(path)).isDirectory()) return await readDirectory(path);
    return readText(normalize(path), await collect((await open(path)).createReadStream()));
  } catch (error) {
    if (!(error instanceof Error) || errorCode(error) === undefined) throw error; // a mistake of ours
    return failed(
      path === STDIN ? STDIN_NAME : path,
      `cannot be read: ${printable(error.message)}`,
      'name a file or directory that is there and readable',
    );
  }
}

/** Nothing at all is no config here, but what a program leaves that has failed before the pipe. */
function readStdin(bytes: Buffer): Input {
  return bytes.length === 0 ? NOTHING : readText(STDIN_NAME, bytes);
}

/** Pipes among them, which have no size; a byte more than the limit where there is more. */
async function collect(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > MAX_INPUT_BYTES) break;
  }
  return Buffer.concat(chunks);
}

async function readDirectory(dir: string): Promise<Input> {
  const { sources, problems } = await readGeneration(dir, false);
  const nothing = sources.length === 0 && problems.length === 0;
  return {
    sources: sources.map((source) => shownAs(join(dir, source.name), source)),
    texts: [],
    mayBeEmpty: true,
    problems: nothing
      ? await manifestsIn(dir)
      : problems.map((problem) => ({ ...problem, ...(problem.at && { at: within(dir, problem.at) }) })),
  };
}

/** Who names a directory of manifests must not take the defaults for their content. */
async function manifestsIn(dir: string): Promise<readonly Problem[]> {
  const [first] = (await readdir(dir)).filter((name) => /\.(?:ya?ml|json)$/.test(name)).sort(byteOrder);
  if (first === undefined) return [];
  const message = `has no source; of a directory only files ip-masq-* are read, and not ${quote(first)}`;
  const remedy = 'name the files themselves, if they are manifests';
  return [
    { severity: 'warning', kind: 'no-source', at: { kind: 'whole-file', source: dir }, message, remedy },
  ];
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
  const manifest = readManifest(path, whole.text);
  if (manifest !== undefined)
    return { ...NOTHING, sources: manifest.sources, problems: manifest.problems, texts: [whole] };
  if (bytes.length > MAX_BYTES)
    return failed(path, `is larger than 1 MiB (${bytes.length} bytes)`, 'split it, or use wider CIDRs');
  return { ...NOTHING, sources: [shownAs(path, { ...whole, name: basename(path) })] };
}

function shownAs(file: string, source: Source): Source {
  return { ...source, found: { file, text: source.text, offsetOf: (offset) => offset } };
}

function failed(path: string, message: string, remedy: string): Input {
  const at: FileOnly = { kind: 'whole-file', source: path };
  return {
    ...NOTHING,
    problems: [{ severity: 'error', kind: 'unreadable', at, message, remedy }],
  };
}

function nameOf(path: string): string {
  return path === STDIN ? STDIN_NAME : printable(path);
}

/** An empty config directory means the defaults; an empty list of manifests, that nothing was checked. */
function nothingFound(paths: readonly string[], inputs: readonly Input[]): readonly Problem[] {
  const found = inputs.some(
    (input) => input.mayBeEmpty || input.sources.length > 0 || input.problems.some(isError),
  );
  if (found) return [];
  const message = `no source in ${paths.map(nameOf).join(', ')}: nothing was checked`;
  const remedy = 'name a config file, or a manifest with a ConfigMap that has a key beginning with ip-masq-';
  return [{ severity: 'error', kind: 'no-source', message, remedy }];
}

function isError({ severity }: Problem): boolean {
  return severity === 'error';
}

/** A volume holds one file of each name. */
function sameNames(sources: readonly Source[]): readonly Problem[] {
  return sources.flatMap((source, index): Problem[] => {
    const before = sources[index - 1];
    if (before?.name !== source.name) return [];
    return [
      {
        severity: 'error',
        kind: 'same-name',
        at: new Locator(source).origin(0),
        other: new Locator(before).origin(0),
        message: `two sources are named ${printable(source.name)}, of which a volume can hold one`,
        remedy: 'rename one; or, where they are meant for different nodes, check them one by one',
      },
    ];
  });
}
