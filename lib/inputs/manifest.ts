import { type ConfigFile, LINE_BREAK, problemIn, type TextFile } from '../config/config-file.ts';
import { MANIFEST_LIMITS, OWN_MANIFEST_LIMITS } from '../config/limits.ts';
import type { Problem } from '../config/problem.ts';
import { type Node, parseDocuments, valueAt } from '../config/yaml.ts';
import { PlacedError } from '../text/error.ts';
import { printable } from '../text/escape.ts';
import { ConfigFileCollector, readConfigMap } from './config-map.ts';
import { mountings } from './mounting.ts';
import { isOfAgent, type KubernetesObject, textAt, workloadsOf } from './workload.ts';

/** A file of Kubernetes manifests. */
export interface Manifest {
  readonly file: ConfigFile;
  readonly parts: readonly Part[];
}

interface Part {
  readonly collector: ConfigFileCollector;
  readonly objects: readonly KubernetesObject[];
}

/**
 * Reads the objects of a file: several documents, lists in lists, as kubectl prints and takes them. A document that is not YAML
 * hides no other.
 *
 * @param file the whole file
 * @returns undefined if the text is not a manifest
 */
export function readManifest(file: TextFile): Manifest | undefined {
  // Most files are no manifests, and need not be parsed with the wide limits of manifests.
  if (!file.text.includes('apiVersion')) return undefined;
  const pieces = piecesOf(file.text).map(parsePiece);
  if (!pieces.some(isManifest)) return undefined;
  const parts = pieces.map((piece): Part => {
    const collector = new ConfigFileCollector(file, piece.start);
    if ('error' in piece) collector.problems.push(asProblem(piece, file));
    const objects = 'error' in piece ? [] : objectsOf(piece.documents, collector);
    return { collector, objects };
  });
  return { file, parts };
}

/**
 * The config files that manifests hold, what is wrong with how they hold them, and the agents that read them. Every key of
 * `data` and `binaryData` of a ConfigMap that begins with `ip-masq-` is a config file or, if a workload mounts the ConfigMap,
 * every one that becomes a file of such a name. Problems and config files point into the files themselves.
 */
export function deliver(manifests: readonly Manifest[]) {
  const parts = manifests.flatMap((manifest) => manifest.parts);
  const objects = parts.flatMap((part) => part.objects);
  const workloads = workloadsOf(objects);
  const mountingOf = mountings(workloads);
  for (const { objects, collector } of parts)
    for (const object of objects) {
      if (object.kind !== 'ConfigMap' && object.kind !== 'Secret') continue;
      const mounting = mountingOf(object);
      if (object.kind === 'ConfigMap' || mounting.sources.length > 0)
        readConfigMap(object, collector, mounting);
    }
  return {
    configFiles: parts.flatMap(({ collector }) => collector.configFiles),
    problems: parts.flatMap(({ collector }) => collector.problems),
    agents: workloads.filter(({ isAgent }) => isAgent),
  };
}

/** Text that is parsed by itself, so that a mistake in it hides nothing else. */
interface Piece {
  /** Where in the file it begins. */
  readonly start: number;
  readonly text: string;
}

type ParsedPiece = Piece & ({ readonly documents: readonly Node[] } | { readonly error: PlacedError });

/** The text cut as kubectl cuts it: before each line that begins with `---`. Comments alone belong to what follows. */
function piecesOf(text: string): readonly Piece[] {
  const starts = [0, ...[...text.matchAll(/(?<=\n)---/g)].map(({ index }) => index)];
  return starts
    .map((start, index) => ({ start, text: text.slice(start, starts[index + 1]) }))
    .filter((piece) => piece.text.split(LINE_BREAK).some((line) => !/^(?:#|\s*$)/.test(line)));
}

function parsePiece(piece: Piece): ParsedPiece {
  try {
    return { ...piece, documents: documentsOf(piece.text) };
  } catch (error) {
    if (error instanceof PlacedError) return { ...piece, error };
    throw error;
  }
}

/** At most one: kubectl reads no other, and no document in the line of its `---`. */
function documentsOf(text: string): readonly Node[] {
  const behind = /^---[ \t\r]*(?![ \t\r\n#]|$)/.exec(text);
  if (behind !== null)
    throw new PlacedError(
      'has text behind "---", which kubectl refuses',
      behind[0].length,
      'write this text on a line of its own',
    );
  const documents = parseDocuments(text, isOfAgent(text) ? OWN_MANIFEST_LIMITS : MANIFEST_LIMITS);
  const second = documents[1];
  if (second === undefined) return documents;
  const message =
    'is a document behind "...", or behind "---" in a line that does not end in a line feed: kubectl does not read it';
  throw new PlacedError(message, second.offset, 'put it below a line with "---" alone');
}

function isManifest(piece: ParsedPiece): boolean {
  if ('error' in piece) return /^[ \t{]*["']?apiVersion["']?[ \t]*:/m.test(piece.text);
  return piece.documents.some((node) => valueAt(node, 'apiVersion') && valueAt(node, 'kind'));
}

function asProblem({ start, error }: Piece & { readonly error: PlacedError }, file: TextFile): Problem {
  const at = { offset: start + error.offset };
  return problemIn(file, 'syntax', at, printable(error.message), printable(error.remedy));
}

/** The objects from top to bottom, those in lists too; one that has aliases is there once. */
function objectsOf(documents: readonly Node[], collector: ConfigFileCollector): readonly KubernetesObject[] {
  const found: KubernetesObject[] = [];
  const seen = new Set<Node>();
  // Not recursive: lists may be nested far deeper by aliases than functions may call themselves.
  const pending = documents.map((node) => ({ node, kind: '' })).reverse();
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { node } = next;
    if (node.kind !== 'map' || seen.has(node)) continue;
    seen.add(node);
    const kind = textAt(node, 'kind') ?? next.kind;
    found.push({
      node,
      kind,
      report: (...problem) => collector.report(...problem),
      originOf: (at) => collector.originOf(at),
    });
    const items = kind.endsWith('List') ? valueAt(node, 'items') : undefined;
    if (items?.kind !== 'list' || seen.has(items)) continue;
    seen.add(items);
    for (const item of items.items.toReversed())
      pending.push({ node: item, kind: kind.slice(0, -'List'.length) });
  }
  return found;
}
