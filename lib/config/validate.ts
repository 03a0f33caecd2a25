import { type Prefix, parsePrefix } from '../cidr/prefix.ts';
import { printable, quote } from '../text/escape.ts';
import { nearest } from '../text/nearest.ts';
import { counted } from '../text/words.ts';
import type { ConfigOptions, SourceConfig } from './config.ts';
import { intervalError, parseDuration } from './duration.ts';
import type { FileOrigin, Located } from './origin.ts';
import type { Problem, ProblemKind } from './problem.ts';
import { keys as knownKeys, type SchemaError, validate as validateShape } from './schema.generated.js';
import { describe, expectation, shapeRemedy } from './shape.ts';
import { Locator, type Source } from './source.ts';
import { type MapNode, type Node, parseYaml, YamlError } from './yaml.ts';

export interface ValidatedSource {
  /** What could be understood; not to be applied where a problem is an error. */
  readonly config: SourceConfig;
  readonly problems: readonly Problem[];
}

/** Reads one source: its syntax, its shape by the schema, then what a schema cannot say. Reports all problems. */
export function validateSource(source: Source, options: ConfigOptions): ValidatedSource {
  return new Validation(source, options).run();
}

interface PlacedProblem extends Problem {
  readonly at: FileOrigin;
}

type ListKey = 'nonMasqueradeCIDRs' | 'masqueradeCIDRs';

class Validation {
  readonly #source: Source;
  readonly #options: ConfigOptions;
  readonly #locator: Locator;
  readonly #problems: PlacedProblem[] = [];
  /** Values by key as the schema spells it. */
  readonly #values = new Map<string, Node>();

  constructor(source: Source, options: ConfigOptions) {
    this.#source = source;
    this.#options = options;
    this.#locator = new Locator(source);
  }

  run(): ValidatedSource {
    const config = this.#config();
    return { config, problems: this.#problems.sort(byPlace) };
  }

  #config(): SourceConfig {
    const root = this.#parse();
    if (root?.kind === 'map') {
      this.#collectKeys(root);
      this.#checkShape();
    } else if (root !== undefined) {
      const message = `a config must be a map of keys, but this is ${describe(root)}`;
      this.#reportError('shape', root.offset, message, 'write keys such as "nonMasqueradeCIDRs:"');
    }
    const nonMasqueradeCIDRs = this.#prefixes('nonMasqueradeCIDRs');
    const masqueradeCIDRs = this.#prefixes('masqueradeCIDRs');
    this.#checkLimit();
    return {
      source: this.#source.name,
      nonMasqueradeCIDRs,
      masqueradeCIDRs,
      masqLinkLocal: this.#boolean('masqLinkLocal'),
      masqLinkLocalIPv6: this.#boolean('masqLinkLocalIPv6'),
      resyncInterval: this.#interval('resyncInterval'),
    };
  }

  #parse(): Node | undefined {
    try {
      const root = parseYaml(this.#source.text);
      if (root === undefined) {
        const remedy =
          'write a config, or remove the file: an empty one still turns off the RFC 1918 defaults';
        this.#problems.push({
          ...this.#error('empty', 0, 'the document is empty', remedy),
          severity: 'warning',
        });
      }
      return root;
    } catch (error) {
      if (!(error instanceof YamlError)) throw error;
      this.#reportError('syntax', error.offset, printable(error.message), error.remedy);
      return undefined;
    }
  }

  #collectKeys(root: MapNode): void {
    if (isManifest(root)) {
      const message = 'this is a Kubernetes manifest, not the config inside it';
      const remedy =
        'keep only what stands below "data:" and its ip-masq-* key, or apply the manifest and mount it';
      this.#reportError('shape', root.offset, message, remedy);
      return;
    }
    const seen = new Map<string, Node>();
    for (const { key, value } of root.pairs) {
      const name = keyName(key);
      const known = knownKeys.find((candidate) => candidate.toLowerCase() === name.toLowerCase()) ?? name;
      const first = seen.get(known);
      if (first === undefined) {
        seen.set(known, key);
        this.#values.set(known, value);
      } else {
        const remedy = 'keep one; keys are the same whatever their case';
        this.#problems.push({
          ...this.#error('duplicate-key', key.offset, `the key ${quote(name)} is set twice`, remedy),
          other: this.#locator.origin(first.offset),
        });
      }
    }
    for (const [name, key] of seen) {
      if (!knownKeys.includes(name)) this.#reportUnknownKey(name, key);
    }
  }

  #reportUnknownKey(name: string, key: Node): void {
    const near = nearest(name, knownKeys);
    const remedy =
      near === undefined ? `known keys: ${knownKeys.join(', ')}` : `did you mean ${quote(near)}?`;
    this.#reportError('unknown-key', key.offset, `unknown key ${quote(name)}`, remedy);
  }

  #checkShape(): void {
    // A null prototype keeps keys such as __proto__ plain data.
    const value: Record<string, unknown> = Object.create(null);
    for (const [key, node] of this.#values) value[key] = plainValue(node);
    if (validateShape(value)) return;
    for (const error of validateShape.errors ?? []) {
      // Unknown keys were reported with their own position; texts that are no CIDR or duration are
      // reported with the reason, which a pattern does not know.
      if (error.keyword !== 'additionalProperties' && error.keyword !== 'pattern') this.#reportShape(error);
    }
  }

  #reportShape(error: SchemaError): void {
    const [, key = '', index] = error.instancePath.split('/');
    const value = this.#values.get(key);
    const node = index !== undefined && value?.kind === 'list' ? value.items[Number(index)] : value;
    if (node === undefined) throw new Error(`no value at ${error.instancePath}`);
    const what = index === undefined ? key : `item ${Number(index) + 1} of ${key}`;
    const message = `${what} ${expectation(error)}, but is ${describe(node)}`;
    this.#reportError('shape', node.offset, message, shapeRemedy(key, index, node));
  }

  #prefixes(key: ListKey): readonly Located<Prefix>[] {
    const list = this.#values.get(key);
    if (list?.kind !== 'list') return [];
    return list.items.flatMap((item) => {
      const prefix = this.#prefix(item);
      return prefix === undefined ? [] : [{ value: prefix, origin: this.#locator.origin(item.offset) }];
    });
  }

  #prefix(item: Node): Prefix | undefined {
    if (item.kind !== 'scalar' || typeof item.value !== 'string') return undefined; // the schema said so
    const parsed = parsePrefix(item.value);
    if ('error' in parsed) {
      const { message, remedy } = parsed.error;
      this.#reportError('cidr', item.offset, `${quote(item.value)} ${printable(message)}`, printable(remedy));
      return undefined;
    }
    if (parsed.prefix.family === 'IPv6' && !this.#options.enableIPv6) {
      const message = `${parsed.prefix.text} is IPv6, but IPv6 is not enabled`;
      const remedy = 'start the agent with --enable-ipv6, or remove the entry';
      this.#reportError('ipv6-disabled', item.offset, message, remedy);
    }
    return parsed.prefix;
  }

  #checkLimit(): void {
    const items = (['nonMasqueradeCIDRs', 'masqueradeCIDRs'] as const).flatMap((key) => {
      const list = this.#values.get(key);
      return list?.kind === 'list' ? list.items : [];
    });
    const own = this.#values.get('cidrLimit');
    const limit =
      own?.kind === 'scalar' && typeof own.value === 'number' ? own.value : this.#options.cidrLimit;
    const excess = items[limit];
    if (excess === undefined) return;
    const message = `${counted(items.length, 'CIDR')}, but this source may list only ${limit}`;
    const remedy = 'join CIDRs into wider ones, or raise "cidrLimit"';
    this.#reportError('cidr-limit', excess.offset, message, remedy);
  }

  #boolean(key: string): Located<boolean> | undefined {
    const node = this.#values.get(key);
    if (node?.kind !== 'scalar' || typeof node.value !== 'boolean') return undefined;
    return { value: node.value, origin: this.#locator.origin(node.offset) };
  }

  #interval(key: string): Located<number> | undefined {
    const node = this.#values.get(key);
    if (node?.kind !== 'scalar' || typeof node.value !== 'string') return undefined;
    const error = intervalError(node.value);
    if (error !== undefined) {
      const message = `${key} ${quote(node.value)} ${error}`;
      const remedy = 'write a Go duration such as 60s or 1m30s, from 100ms to 576h';
      this.#reportError('duration', node.offset, message, remedy);
      return undefined;
    }
    return { value: parseDuration(node.value) ?? 0, origin: this.#locator.origin(node.offset) };
  }

  #reportError(kind: ProblemKind, offset: number, message: string, remedy: string): void {
    this.#problems.push(this.#error(kind, offset, message, remedy));
  }

  #error(kind: ProblemKind, offset: number, message: string, remedy: string): PlacedProblem {
    return { severity: 'error', kind, message, remedy, at: this.#locator.origin(offset) };
  }
}

function byPlace({ at: a }: PlacedProblem, { at: b }: PlacedProblem): number {
  return a.line - b.line || a.column - b.column;
}

function isManifest(root: MapNode): boolean {
  const names = root.pairs.map(({ key }) => keyName(key));
  return names.includes('apiVersion') && names.includes('kind');
}

function keyName(key: Node): string {
  return key.kind === 'scalar' ? String(key.value) : `(${describe(key)})`;
}

function plainValue(node: Node): unknown {
  switch (node.kind) {
    case 'scalar':
      return node.value;
    case 'list':
      // One level is all the schema looks at; what is deeper is wrong whatever it holds.
      return node.items.map((item) => (item.kind === 'scalar' ? item.value : item.kind === 'list' ? [] : {}));
    case 'map':
      return {};
  }
}
