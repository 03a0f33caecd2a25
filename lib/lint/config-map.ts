import { decodeSource } from '../config/decode.ts';
import type { Problem, ProblemKind, Severity } from '../config/problem.ts';
import { describe } from '../config/shape.ts';
import { type Locator, MAX_BYTES, type Source } from '../config/source.ts';
import { isNearMiss, isSourceName, nearMissMessage } from '../config/source-name.ts';
import type { MapNode, Node, ScalarNode } from '../config/yaml.ts';
import { quote } from '../text/escape.ts';
import { alignScalar } from './align.ts';
import { keyName, type Pair, pairsOf, textAt, valueAt } from './pairs.ts';

/** A key of `data` or `binaryData`. */
interface DataPair extends Pair {
  readonly encoded: boolean;
}

/** Where the character stands in the file that has this offset in the source. */
type OffsetOf = (offset: number) => number;

/** Collects the sources of ConfigMaps, and what is wrong with how they hold them. */
export class ConfigMapReader {
  readonly sources: Source[] = [];
  readonly problems: Problem[] = [];
  readonly #file: Source;
  readonly #locator: Locator;
  readonly #start: number;

  /**
   * @param locator of the file
   * @param start where in the file the text begins that the nodes count in
   */
  constructor(file: Source, locator: Locator, start: number) {
    this.#file = file;
    this.#locator = locator;
    this.#start = start;
  }

  /** Adds the sources of a ConfigMap. */
  read(configMap: MapNode): void {
    const fields = this.#firsts(pairsOf(configMap), isDataField).filter(({ key }) =>
      isDataField(keyName(key)),
    );
    const pairs = this.#firsts(
      fields.flatMap((field) => this.#dataPairs(field)),
      isSourceName,
    );
    for (const pair of pairs) this.#readPair(pair);
    this.#warnOfNothing(configMap, pairs);
  }

  /** The pairs without those whose key came before; they are reported where the key matters. */
  #firsts<P extends Pair>(pairs: readonly P[], matters: (name: string) => boolean): readonly P[] {
    const seen = new Map<string, Node>();
    return pairs.filter(({ key }) => {
      const name = keyName(key);
      const first = seen.get(name);
      if (first === undefined) seen.set(name, key);
      else if (matters(name)) this.#reportDuplicate(name, key, first);
      return first === undefined;
    });
  }

  #dataPairs({ key, value }: Pair): readonly DataPair[] {
    const name = keyName(key);
    if (value.kind === 'map')
      return pairsOf(value).map((pair) => ({ ...pair, encoded: name === 'binaryData' }));
    if (value.kind === 'scalar' && value.value === null) return [];
    const message = `${name} of a ConfigMap must be a map, but is ${describe(value)}`;
    this.#report('error', 'shape', this.#begin(value), message, 'write "ip-masq-…: |" and the config below');
    return [];
  }

  #readPair({ key, value, encoded }: DataPair): void {
    const name = keyName(key);
    if (isNearMiss(name)) {
      const message = `the key ${quote(name)} ${nearMissMessage}`;
      this.#report('warning', 'not-a-source', this.#begin(key), message, 'rename it');
    }
    if (!isSourceName(name)) return;
    if (!/^[-._a-zA-Z0-9]{1,253}$/.test(name)) {
      const remedy = 'use up to 253 letters, digits, "-", "_" and "."';
      this.#report('error', 'shape', this.#begin(key), `a ConfigMap takes no key ${quote(name)}`, remedy);
    }
    if (value.kind !== 'scalar' || (value.value !== null && typeof value.value !== 'string')) {
      const message = `the value of ${quote(name)} must be text, but is ${describe(value)}`;
      const remedy = `write ${quote(`${name}: |`)} and the config below, indented`;
      this.#report('error', 'shape', this.#begin(value), message, remedy);
      return;
    }
    const text = value.value ?? '';
    if (encoded) this.#readEncoded(name, text, value);
    else
      this.#addSource(
        name,
        Buffer.from(text),
        text.trim() === '' ? key : value,
        this.#offsets(key, value, text),
      );
  }

  #readEncoded(name: string, text: string, value: ScalarNode): void {
    const base64 = text.replace(/[\r\n]/g, ''); // as Go reads it
    if (base64.length % 4 === 0 && !/[^A-Za-z0-9+/]/.test(base64.replace(/={1,2}$/, ''))) {
      const begin = this.#begin(value);
      this.#addSource(name, Buffer.from(base64, 'base64'), value, () => begin);
      return;
    }
    const message = `the value of ${quote(name)} in binaryData is not base64`;
    this.#report('error', 'encoding', this.#begin(value), message, 'encode it, or move it to data');
  }

  #addSource(name: string, bytes: Buffer, at: Node, offsetOf: OffsetOf): void {
    if (bytes.length > MAX_BYTES) {
      const message = `${quote(name)} is larger than 1 MiB (${bytes.length} bytes)`;
      this.#report('error', 'unreadable', this.#begin(at), message, 'split it, or use wider CIDRs');
      return;
    }
    const decoded = decodeSource(name, bytes);
    if (!('text' in decoded)) {
      const { severity, kind, message, remedy } = decoded;
      this.#report(severity, kind, this.#begin(at), `${quote(name)} ${message}`, remedy);
      return;
    }
    // A byte order mark, which decoding drops, still counts in the manifest.
    const dropped = bytes.toString('utf8').length - decoded.text.length;
    const { name: file, text } = this.#file;
    this.sources.push({
      ...decoded,
      found: { file, text, offsetOf: (offset) => offsetOf(offset + dropped) },
    });
  }

  /** Where the characters of a value stand in the file; the key, where there are none. */
  #offsets(key: Node, { offset, end }: ScalarNode, value: string): OffsetOf {
    if (value.trim() === '') return () => this.#start + key.offset;
    const { text } = this.#file;
    const first = this.#start + offset;
    const quoted = text[first];
    const style = quoted === '"' ? 'double-quoted' : quoted === "'" ? 'single-quoted' : 'plain';
    const start = style === 'plain' ? first : first + 1;
    const aligned = alignScalar(text.slice(start, this.#start + end), value, style);
    return (index) => start + (aligned[Math.min(index, value.length)] ?? 0);
  }

  /** Older agents read a key `config`, which a volume mounts as `ip-masq-agent`. */
  #warnOfNothing(configMap: MapNode, pairs: readonly Pair[]): void {
    const metadata = valueAt(configMap, 'metadata');
    const name = textAt(metadata, 'name') ?? '';
    const read = pairs.some(({ key }) => isSourceName(keyName(key)) || isNearMiss(keyName(key)));
    if (read || pairs.length === 0 || !/ip-?masq/.test(name)) return;
    const message = `no key of ConfigMap ${quote(name)} begins with ip-masq-: nothing of it is read`;
    const remedy =
      'rename the key; where a volume mounts it under another name, check its text as a file of that name';
    this.#report(
      'warning',
      'not-a-source',
      this.#begin(valueAt(metadata, 'name') ?? configMap),
      message,
      remedy,
    );
  }

  #reportDuplicate(name: string, key: Node, first: Node): void {
    const message = `the key ${quote(name)} is set twice`;
    const remedy = 'keep one; the API server takes no more';
    this.#report('error', 'duplicate-key', this.#begin(key), message, remedy, this.#begin(first));
  }

  /** Where people see the node begin: not in the indentation of a block. */
  #begin({ offset }: Node): number {
    const blank = /\s*/y;
    blank.lastIndex = this.#start + offset;
    blank.exec(this.#file.text);
    return blank.lastIndex < this.#file.text.length ? blank.lastIndex : this.#start + offset;
  }

  #report(
    severity: Severity,
    kind: ProblemKind,
    offset: number,
    message: string,
    remedy: string,
    otherOffset?: number,
  ): void {
    const at = this.#locator.origin(offset);
    const other = otherOffset === undefined ? {} : { other: this.#locator.origin(otherOffset) };
    this.problems.push({ severity, kind, at, ...other, message, remedy });
  }
}

function isDataField(name: string): boolean {
  return name === 'data' || name === 'binaryData';
}
