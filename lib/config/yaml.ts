import {
  boolYaml11Tag,
  EVENT_ID,
  type Event,
  floatYaml11Tag,
  getScalarValue,
  intYaml11Tag,
  NOT_RESOLVED,
  nullYaml11Tag,
  parseEvents,
  SCALAR_STYLE,
  type ScalarEvent,
  YAMLException,
} from 'js-yaml';
import { PlacedError } from '../text/error.ts';
import { quote } from '../text/escape.ts';
import { CONFIG_FILE_LIMITS, type YamlLimits } from './limits.ts';

/** A YAML value that knows at which offset of the text it begins. */
export type Node = ScalarNode | ListNode | MapNode;

interface ScalarNode {
  readonly kind: 'scalar';
  readonly value: string | number | boolean | null;
  readonly offset: number;
  /** How far the lines of a literal block (`|`) are indented; `offset` is then where the first of them begins. */
  readonly indentation: number | undefined;
}

interface ListNode {
  readonly kind: 'list';
  readonly items: readonly Node[];
  readonly offset: number;
}

export interface MapNode {
  readonly kind: 'map';
  readonly pairs: readonly Pair[];
  readonly offset: number;
}

export interface Pair {
  readonly key: Node;
  readonly value: Node;
}

/**
 * Reads a text of one YAML 1.1 (or JSON) document, keeping positions; undefined if it holds no value.
 * Plain scalars are typed as Kubernetes' YAML reader does (yes, no, on and off are booleans; dates are text).
 *
 * @throws {PlacedError}
 */
export function parseYaml(text: string): Node | undefined {
  const documents = parseDocuments(text, CONFIG_FILE_LIMITS);
  const second = documents[1];
  if (second !== undefined) {
    throw new PlacedError(
      'has more than one YAML document',
      second.offset,
      'keep one document, without "---" between',
    );
  }
  const [root] = documents;
  return root?.kind === 'scalar' && root.value === null ? undefined : root;
}

/**
 * Reads a text of any number of documents, as `parseYaml` reads one. The value of a document without any is null.
 *
 * @throws {PlacedError}
 */
export function parseDocuments(text: string, limits: YamlLimits): readonly Node[] {
  if (!limits.forOthers) rejectOtherReadings(text);
  return new Composer(text, events(text, limits.depth), limits).documents();
}

/** What ends a line for the YAML 1.1 readers of Kubernetes, and not for this one. */
const OTHER_BREAK = /[\u0085\u2028\u2029]/;

/** For Kubernetes' readers it is text, for this one it begins a document. */
const INDENTED_MARK = /^(?:[ \t]*(?:#.*)?[\r\n])*[ \t]+---(?![^\s])/;

/** @throws {PlacedError} for what Kubernetes' readers would take for something else */
function rejectOtherReadings(text: string): void {
  const offset = text.search(OTHER_BREAK);
  if (offset !== -1) {
    const code = text.charCodeAt(offset).toString(16).toUpperCase().padStart(4, '0');
    const message = `has the invisible character U+${code}, which ends a line for kubectl and for other agents`;
    throw new PlacedError(message, offset, 'remove it, or write a line feed');
  }
  const mark = INDENTED_MARK.exec(text);
  if (mark !== null)
    throw new PlacedError('has blanks before "---"', mark[0].length - 3, 'remove the blanks');
}

function events(text: string, maxDepth: number): readonly Event[] {
  try {
    return parseEvents(text, { maxDepth });
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const position = error.mark?.position ?? 0;
    // Behind the last word rather than behind blank lines: in a manifest something else may follow them.
    const offset = position < text.length ? position : text.trimEnd().length;
    const reason = error.reason.slice(0, LONGEST_REASON); // it may quote the text
    throw new PlacedError(`is not valid YAML: ${reason}`, offset, SYNTAX_REMEDY);
  }
}

const LONGEST_REASON = 200;

const SYNTAX_REMEDY =
  'check indentation (spaces, no tabs), brackets, quotes and colons of this line and the one before; if this is a template, render it first';

/** An escape in double quotes, and the blank line behind it if it is a line break. */
const ESCAPE = /\\(?:(?:\r\n?|\n)[ \t]*([\r\n])|[\s\S])/g;

/** Builds nodes from the parser's flat list of events. */
class Composer {
  readonly #text: string;
  readonly #events: readonly Event[];
  readonly #anchors = new Map<string, Node>();
  readonly #limits: YamlLimits;
  /** Whether an escaped slash is an error: JSON has it, YAML 1.1 does not. */
  readonly #refusesSlash: boolean;
  /** Where the last word ends. */
  readonly #end: number;
  #next = 0;
  #aliases = 0;
  /** Where the last node ended, to place the empty scalars, which have no offset of their own. */
  #cursor = 0;
  /** Where the blanks end that were looked through last. */
  #blankEnd = 0;

  constructor(text: string, events: readonly Event[], limits: YamlLimits) {
    this.#text = text;
    this.#events = events;
    this.#limits = limits;
    this.#end = text.trimEnd().length;
    this.#refusesSlash = !limits.forOthers && text.includes('\\/') && !isJson(text);
  }

  documents(): readonly Node[] {
    const roots: Node[] = [];
    while (this.#take()?.type === EVENT_ID.DOCUMENT) {
      roots.push(this.#node());
      this.#anchors.clear();
      this.#take(); // the end of the document
    }
    return roots;
  }

  #take(): Event | undefined {
    const event = this.#events[this.#next];
    this.#next += 1;
    return event;
  }

  #ends(): boolean {
    return this.#events[this.#next]?.type === EVENT_ID.POP;
  }

  #node(): Node {
    const event = this.#take();
    switch (event?.type) {
      case EVENT_ID.SCALAR:
        return this.#anchored(event, this.#scalar(event));
      case EVENT_ID.SEQUENCE:
        this.#rejectTag(event, ['!!seq']);
        this.#cursor = event.start;
        return this.#anchored(event, { kind: 'list', items: this.#list(), offset: event.start });
      case EVENT_ID.MAPPING:
        this.#rejectTag(event, ['!!map']);
        this.#cursor = event.start;
        return this.#anchored(event, { kind: 'map', pairs: this.#pairs(), offset: event.start });
      case EVENT_ID.ALIAS:
        return this.#alias(this.#text.slice(event.anchorStart, event.anchorEnd), event.anchorStart);
      default:
        throw new PlacedError('is not valid YAML', this.#cursor, 'check the syntax');
    }
  }

  #list(): readonly Node[] {
    const items: Node[] = [];
    while (!this.#ends()) items.push(this.#node());
    this.#take();
    return items;
  }

  #pairs(): MapNode['pairs'] {
    const pairs: { key: Node; value: Node }[] = [];
    const names = this.#limits.isManifest ? new Set<string>() : undefined;
    while (!this.#ends()) {
      const key = this.#node();
      if (names !== undefined) rejectKey(key, names);
      pairs.push({ key, value: this.#node() });
    }
    this.#take();
    return pairs;
  }

  #scalar(event: ScalarEvent): ScalarNode {
    const quoted = event.style === SCALAR_STYLE.SINGLE_QUOTED || event.style === SCALAR_STYLE.DOUBLE_QUOTED;
    const offset = event.valueStart === -1 ? this.#emptyScalarOffset() : event.valueStart - (quoted ? 1 : 0);
    this.#cursor = Math.max(this.#cursor, event.valueEnd, offset + 1);
    return {
      kind: 'scalar',
      value: this.#scalarValue(event),
      offset: Math.min(offset, this.#end),
      indentation: event.style === SCALAR_STYLE.LITERAL_BLOCK ? event.indent : undefined,
    };
  }

  #scalarValue(event: ScalarEvent): ScalarNode['value'] {
    if (event.valueEnd - event.valueStart > this.#limits.scalar) {
      throw new PlacedError(
        `has a key or value of more than ${this.#limits.scalar} characters`,
        event.valueStart,
        'write each CIDR as an item of its own',
      );
    }
    this.#rejectEscapes(event);
    const text = event.valueStart === -1 ? '' : getScalarValue(this.#text, event);
    const plain = event.style === SCALAR_STYLE.PLAIN;
    const tag = this.#rejectTag(event, ['!!str', '!!int', '!!bool', '!!null', '!']);
    if (tag === '!!str' || tag === '!' || (tag === '' && !plain)) return text;
    return resolvePlain(text);
  }

  /** What this parser reads, and the YAML 1.1 readers of Kubernetes refuse or take for something else. */
  #rejectEscapes({ style, valueStart, valueEnd }: ScalarEvent): void {
    const raw = style === SCALAR_STYLE.DOUBLE_QUOTED ? this.#text.slice(valueStart, valueEnd) : '';
    if (!/\\[\r\n/]/.test(raw)) return;
    for (const { 0: found, 1: blankLine, index } of raw.matchAll(ESCAPE)) {
      const reject = (message: string, remedy: string) => {
        throw new PlacedError(message, valueStart + index, remedy);
      };
      if (blankLine !== undefined)
        reject(
          'has a blank line behind a backslash that ends a line: kubectl reads a line break',
          'remove the blank line',
        );
      if (found === '\\/' && this.#refusesSlash)
        reject('has the escape "\\/", which kubectl and other agents refuse in YAML', 'write "/"');
    }
  }

  /** The dash or the colon behind which the value would have stood. */
  #emptyScalarOffset(): number {
    // Never the same blanks twice: many empty scalars may lie in them.
    if (this.#cursor >= this.#blankEnd) this.#blankEnd = endOfBlanks(this.#text, this.#cursor);
    return this.#text[this.#blankEnd] === '-' ? this.#blankEnd : this.#cursor;
  }

  #anchored(event: { anchorStart: number; anchorEnd: number }, node: Node): Node {
    if (event.anchorStart !== -1)
      this.#anchors.set(this.#text.slice(event.anchorStart, event.anchorEnd), node);
    return node;
  }

  #alias(name: string, offset: number): Node {
    this.#cursor = offset + name.length;
    this.#aliases += 1;
    if (this.#aliases > this.#limits.aliases) {
      throw new PlacedError(`has more than ${this.#limits.aliases} aliases`, offset, 'write the values out');
    }
    const node = this.#anchors.get(name);
    if (node === undefined) {
      throw new PlacedError(
        'has an alias for an anchor that is not complete here',
        offset,
        'define the anchor before',
      );
    }
    return node;
  }

  #rejectTag(event: { tagStart: number; tagEnd: number }, allowed: readonly string[]): string {
    const tag = event.tagStart === -1 ? '' : this.#text.slice(event.tagStart, event.tagEnd);
    if (this.#limits.forOthers || tag === '' || allowed.includes(tag)) return tag;
    throw new PlacedError(
      'has a YAML tag that a config does not use',
      event.tagStart,
      'remove the word that begins with "!"',
    );
  }
}

/** @param names those of the keys before, among which it comes */
function rejectKey(key: Node, names: Set<string>): void {
  if (key.kind !== 'scalar')
    throw new PlacedError(
      `has ${describe(key)} as a key`,
      key.offset,
      'write a text; if this is a template, render it first',
    );
  const name = keyName(key);
  if (name === '<<')
    throw new PlacedError(
      'has the merge key <<, which is not followed here',
      key.offset,
      'write its keys out',
    );
  if (names.has(name)) {
    const remedy = 'keep one; if two objects stand here, write a line "---" between them';
    throw new PlacedError(`has the key ${quote(name)} twice in one map`, key.offset, remedy);
  }
  names.add(name);
}

function isBlank(char: string | undefined): boolean {
  return char === ' ' || char === '\t';
}

export function isBreak(char: string | undefined): boolean {
  return char === '\n' || char === '\r';
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The end of the blanks, line breaks and comments that begin there. */
function endOfBlanks(text: string, start: number): number {
  let end = start;
  for (let isComment = false; end < text.length; end += 1) {
    if (isBreak(text[end])) isComment = false;
    else if (text[end] === '#') isComment = true;
    else if (!isComment && !isBlank(text[end])) break;
  }
  return end;
}

/** The text of a key, as Kubernetes' YAML reader takes it; what it is, in brackets, if it is a map or a list. */
export function keyName(key: Node): string {
  return key.kind === 'scalar' ? String(key.value) : `(${describe(key)})`;
}

const known = new WeakMap<MapNode, ReadonlyMap<string, Pair>>();

/** The first pair with that key of a map, which may be large; merge keys are not followed. */
export function pairAt(node: Node | undefined, name: string): Pair | undefined {
  if (node?.kind !== 'map') return undefined;
  const pairs = known.get(node) ?? new Map(node.pairs.toReversed().map((pair) => [keyName(pair.key), pair]));
  known.set(node, pairs);
  return pairs.get(name);
}

/** The value of that pair. */
export function valueAt(node: Node | undefined, name: string): Node | undefined {
  return pairAt(node, name)?.value;
}

/** What a value is, for a sentence. */
export function describe(node: Node): string {
  if (node.kind !== 'scalar') return `a ${node.kind}`;
  if (node.value === null) return 'empty';
  if (typeof node.value === 'string') return `the text ${quote(node.value)}`;
  return `the ${typeof node.value} ${node.value}`;
}

function resolvePlain(text: string): ScalarNode['value'] {
  // Kubernetes' YAML reader knows no numbers to base 60, and those to base 8 of YAML 1.2 too. Nothing but text has a slash.
  if (/[:/]/.test(text)) return text;
  if (/^[-+]?0o[0-7]+$/.test(text)) return Number.parseInt(text.replace('0o', ''), 8);
  for (const tag of [nullYaml11Tag, boolYaml11Tag, intYaml11Tag, floatYaml11Tag]) {
    const value = tag.resolve(text, false, tag.tagName);
    if (value !== NOT_RESOLVED) return value;
  }
  return text;
}
