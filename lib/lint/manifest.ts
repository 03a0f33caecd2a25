import type { Problem } from '../config/problem.ts';
import { Locator, type Source } from '../config/source.ts';
import { type MapNode, type Node, parseDocuments, YamlError } from '../config/yaml.ts';
import { printable } from '../text/escape.ts';
import { ConfigMapReader } from './config-map.ts';
import { textAt, valueAt } from './pairs.ts';

/** The sources that a file of Kubernetes manifests holds, and what is wrong with how it holds them. */
export interface Manifest {
  readonly sources: readonly Source[];
  readonly problems: readonly Problem[];
}

/** A CustomResourceDefinition in the same file may nest far deeper than a config. */
const LIMITS = { depth: 256, aliases: 10_000, anyTag: true } as const;

/**
 * Reads the ConfigMaps of a file: several documents, lists in lists, as kubectl prints and takes them. Every key of
 * `data` and `binaryData` that begins with `ip-masq-` is a source. Problems and sources point into the file itself.
 * A document that is no YAML hides no other.
 *
 * @param file how the file is called in messages
 * @returns undefined where the text is no manifest
 */
export function readManifest(file: string, text: string): Manifest | undefined {
  const parts = parseParts(text);
  if (!parts.some(isManifest)) return undefined;
  const whole = { name: file, text };
  const locator = new Locator(whole);
  const manifests = parts.map((part): Manifest => {
    if ('error' in part) return { sources: [], problems: [syntaxProblem(part, locator)] };
    const reader = new ConfigMapReader(whole, locator, part.start);
    for (const configMap of configMapsOf(part.documents)) reader.read(configMap);
    return reader;
  });
  return {
    sources: manifests.flatMap(({ sources }) => sources),
    problems: manifests.flatMap(({ problems }) => problems),
  };
}

/** Text that is parsed by itself, and where in the file it begins. */
type Part = ParsedPart | BrokenPart;

interface ParsedPart {
  readonly start: number;
  readonly documents: readonly Node[];
}

interface BrokenPart {
  readonly start: number;
  readonly text: string;
  readonly error: YamlError;
}

/** The file as a whole; where that is no YAML, each document by itself. */
function parseParts(text: string): readonly Part[] {
  const whole = parsePart(text, 0);
  if (!('error' in whole)) return [whole];
  const starts = [0, ...[...text.matchAll(/(?<=\n)---(?=\s|$)/g)].map(({ index }) => index)];
  return starts
    .map((start, index) => ({ start, text: text.slice(start, starts[index + 1]) }))
    .filter((part) => !isPreamble(part.text))
    .map((part) => parsePart(part.text, part.start));
}

function parsePart(text: string, start: number): Part {
  try {
    return { start, documents: parseDocuments(text, LIMITS) };
  } catch (error) {
    if (error instanceof YamlError) return { start, text, error };
    throw error;
  }
}

/** Comments and directives, which belong to the first document. */
function isPreamble(text: string): boolean {
  return text.split('\n').every((line) => /^(?:[%#]|\s*$)/.test(line));
}

function isManifest(part: Part): boolean {
  if ('error' in part) return /^[ \t{]*["']?apiVersion["']?[ \t]*:/m.test(part.text);
  return part.documents.some(
    (node) => valueAt(node, 'apiVersion') !== undefined && valueAt(node, 'kind') !== undefined,
  );
}

function syntaxProblem({ start, error }: BrokenPart, locator: Locator): Problem {
  const at = locator.origin(start + error.offset);
  const { message, remedy } = error;
  return { severity: 'error', kind: 'syntax', at, message: printable(message), remedy: printable(remedy) };
}

/** The ConfigMaps from top to bottom, those in lists too; one that has aliases is there once. */
function configMapsOf(documents: readonly Node[]): readonly MapNode[] {
  const found = new Set<MapNode>();
  const seen = new Set<Node>();
  // Lists may be nested far deeper by aliases than functions may call themselves.
  const pending: { readonly node: Node; readonly kind?: string }[] = documents.map((node) => ({ node }));
  pending.reverse();
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { node } = next;
    // An object that does not say its kind has that of its list.
    const kind = textAt(node, 'kind') ?? next.kind;
    if (seen.has(node) || kind === undefined) continue;
    seen.add(node);
    if (kind === 'ConfigMap' && node.kind === 'map') found.add(node);
    const items = valueAt(node, 'items');
    if (!kind.endsWith('List') || items?.kind !== 'list') continue;
    for (const item of items.items.toReversed()) pending.push({ node: item, kind: kind.slice(0, -4) });
  }
  return [...found];
}
