import { type ConfigFile, LINE_BREAK, problemIn, type TextFile } from '../config/config-file.ts';
import { MANIFEST_LIMITS } from '../config/limits.ts';
import type { Problem } from '../config/problem.ts';
import { RENDER, templateMarkIn } from '../config/template.ts';
import { type MapNode, type Node, parseDocuments, valueAt } from '../config/yaml.ts';
import { PlacedError } from '../text/error.ts';
import { printable } from '../text/escape.ts';
import { ConfigFileCollector, isMergeKey, partsOf, readConfigMap, withoutRepeats } from './config-map.ts';
import { isOfAgent, type Mounting, mountingOf, mountsOf, textAt } from './mounts.ts';

/** The config files that a file of Kubernetes manifests holds, and what is wrong with how it holds them. */
export interface Manifest {
  readonly configFiles: readonly ConfigFile[];
  readonly problems: readonly Problem[];
}

/**
 * Reads the ConfigMaps of a file: several documents, lists in lists, as kubectl prints and takes them. Every key of
 * `data` and `binaryData` that begins with `ip-masq-` is a config file or, if a workload of the file mounts the ConfigMap,
 * every one that becomes a file of such a name. Problems and config files point into the file itself. A document that is not
 * YAML hides no other.
 *
 * @param file the whole file
 * @returns undefined if the text is not a manifest
 */
export function readManifest(file: TextFile): Manifest | undefined {
  // Most files are no manifests, and need not be parsed with the wide limits of manifests.
  if (!file.text.includes('apiVersion')) return undefined;
  const pieces = piecesOf(file.text).map(parsePiece);
  if (!pieces.some(isManifest)) return undefined;
  const parts = pieces.map((piece) => {
    const collector = new ConfigFileCollector(file, piece.start);
    if ('error' in piece) collector.problems.push(asProblem(piece, file));
    return {
      collector,
      isForAgent: isOfAgent(piece.text),
      objects: 'error' in piece ? [] : objectsOf(piece.documents),
    };
  });
  const mounts = mountsOf(
    parts.flatMap(({ collector, objects }) =>
      objects.map(({ node }) => ({
        node,
        warn: (...warning) => collector.report('not-a-config-file', ...warning),
      })),
    ),
  );
  const names = new Set(
    parts.flatMap(({ objects }) => objects.map(({ node }) => textAt(valueAt(node, 'metadata'), 'name'))),
  );
  for (const { collector, objects, isForAgent } of parts)
    readObjects(objects, isForAgent, collector, (one) => mountingOf(one, mounts, names));
  return {
    configFiles: parts.flatMap(({ collector }) => collector.configFiles),
    problems: parts.flatMap(({ collector }) => collector.problems),
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
      'begin a line with it',
    );
  const documents = parseDocuments(text, { ...MANIFEST_LIMITS, forOthers: !isOfAgent(text) });
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

function asProblem({ start, text, error }: Piece & { readonly error: PlacedError }, file: TextFile): Problem {
  // A rendered manifest may hold such a mark too, in a text that is for another program.
  const mark = templateMarkIn(text)?.mark;
  const render = mark === undefined ? '' : `if "${mark}" is a placeholder, ${RENDER}; else `;
  const remedy = `${render}${printable(error.remedy)}`;
  const at = { offset: start + error.offset };
  return problemIn(file, 'syntax', at, printable(error.message), remedy);
}

/** A Kubernetes object; the kind is empty if neither the object nor the list around it says it. */
interface KubernetesObject {
  readonly node: MapNode;
  readonly kind: string;
}

/** The objects from top to bottom, those in lists too; one that has aliases is there once. */
function objectsOf(documents: readonly Node[]): readonly KubernetesObject[] {
  const found: KubernetesObject[] = [];
  const seen = new Set<Node>();
  // Not recursive: lists may be nested far deeper by aliases than functions may call themselves.
  const pending = documents.map((node) => ({ node, kind: '' })).reverse();
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { node } = next;
    if (node.kind !== 'map' || seen.has(node)) continue;
    seen.add(node);
    const kind = textAt(node, 'kind') ?? next.kind;
    found.push({ node, kind });
    const items = kind.endsWith('List') ? valueAt(node, 'items') : undefined;
    if (items?.kind !== 'list' || seen.has(items)) continue;
    seen.add(items);
    for (const item of items.items.toReversed())
      pending.push({ node: item, kind: kind.slice(0, -'List'.length) });
  }
  return found;
}

function readObjects(
  objects: readonly KubernetesObject[],
  isForAgent: boolean,
  collector: ConfigFileCollector,
  mounting: (configMap: MapNode) => Mounting,
): void {
  const seen = new Set<Node>();
  for (const { node, kind } of objects) {
    if (isForAgent) reportRepeats({ node, kind }, collector, seen);
    // What a merge key adds may be the data, the items, or the kind itself.
    if (kind === '' || kind === 'ConfigMap' || kind.endsWith('List'))
      for (const { key } of node.pairs.filter(isMergeKey)) collector.reportMergeKey(key);
    if (kind === 'ConfigMap') readConfigMap(node, collector, mounting(node));
  }
}

/** Reports keys that stand twice in a map of the object, of which kubectl takes the last; those of data are read elsewhere. */
function reportRepeats(
  { node: object, kind }: KubernetesObject,
  collector: ConfigFileCollector,
  seen: Set<Node>,
): void {
  const metadata = valueAt(object, 'metadata');
  const pending: Node[] = [object, ...(metadata === undefined ? [] : [metadata])];
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (seen.has(node)) continue;
    seen.add(node);
    if (node.kind === 'map') withoutRepeats(node.pairs, collector);
    if (kind !== 'ConfigMap') pending.push(...partsOf(node));
  }
}
