import { type Prefix, parsePrefix } from '../cidr/prefix.ts';
import { printable, quote } from '../text/escape.ts';
import { nearest } from '../text/nearest.ts';
import type { Located } from '../text/origin.ts';
import { counted } from '../text/words.ts';
import type { ConfigOptions, SourceConfig } from './config.ts';
import { intervalError, parseDuration } from './duration.ts';
import { type Problem, type ProblemKind, problem } from './problem.ts';
import { keys as knownKeys } from './schema.generated.js';
import { misshapes } from './shape.ts';
import { Locator, type Source } from './source.ts';
import { describe, type MapNode, type Node, parseYaml, YamlError } from './yaml.ts';

export interface ValidatedSource {
  /** What could be understood; not to be applied if a problem is an error. */
  readonly config: SourceConfig;
  /** From top to bottom. */
  readonly problems: readonly Problem[];
}

/** Reads one source: its syntax, its shape by the schema, then what a schema cannot say. Reports all problems. */
export function validateSource(source: Source, options: ConfigOptions): ValidatedSource {
  const locator = new Locator(source);
  const found: { readonly offset: number; readonly problem: Problem }[] = [];
  const report: Report = (kind, { offset }, message, remedy, other) => {
    const at = locator.origin(offset);
    const theOther = other && { other: locator.origin(other.offset) };
    found.push({ offset, problem: problem(kind, { at, ...theOther, message, remedy }) });
  };
  const located = <Value>(value: Value, { offset }: Node): Located<Value> => ({
    value,
    origin: locator.origin(offset),
  });

  const values = valuesOf(parse(source.text, report), report);
  for (const { node, message, remedy } of misshapes(values)) report('shape', node, message, remedy);
  const prefixes = (key: ListKey) =>
    itemsOf(values, key).flatMap((item) => {
      const prefix = readPrefix(item, options, report);
      return prefix === undefined ? [] : [located(prefix, item)];
    });
  const flag = (key: string) => {
    const node = values.get(key);
    if (node?.kind !== 'scalar' || typeof node.value !== 'boolean') return undefined;
    return located(node.value, node);
  };
  const interval = values.get('resyncInterval');
  const milliseconds = readInterval(interval, report);
  const config: SourceConfig = {
    source: source.name,
    nonMasqueradeCIDRs: prefixes('nonMasqueradeCIDRs'),
    masqueradeCIDRs: prefixes('masqueradeCIDRs'),
    masqLinkLocal: flag('masqLinkLocal'),
    masqLinkLocalIPv6: flag('masqLinkLocalIPv6'),
    resyncInterval: interval && milliseconds !== undefined ? located(milliseconds, interval) : undefined,
  };
  checkLimit(values, options, report);
  return { config, problems: found.sort((a, b) => a.offset - b.offset).map(({ problem }) => problem) };
}

/** Notes a problem with what stands at the offset. */
type Report = (
  kind: ProblemKind,
  at: { readonly offset: number },
  message: string,
  remedy: string,
  other?: Node,
) => void;

/** Values by key as the schema spells it. */
type Values = ReadonlyMap<string, Node>;

type ListKey = 'nonMasqueradeCIDRs' | 'masqueradeCIDRs';

/** The map of keys; undefined if the text holds none. */
function parse(text: string, report: Report): MapNode | undefined {
  try {
    const root = parseYaml(text);
    if (root?.kind === 'map') return root;
    if (root === undefined) {
      const remedy = 'write a config, or remove the file: an empty one still turns off the RFC 1918 defaults';
      report('empty', { offset: 0 }, 'the document is empty', remedy);
    } else {
      const message = `a config must be a map of keys, but this is ${describe(root)}`;
      report('shape', root, message, 'write keys such as "nonMasqueradeCIDRs:"');
    }
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    report('syntax', error, printable(error.message), error.remedy);
  }
  return undefined;
}

function valuesOf(root: MapNode | undefined, report: Report): Values {
  const keys = new Map<string, Node>();
  const values = new Map<string, Node>();
  if (root === undefined) return values;
  if (isManifest(root)) {
    const remedy =
      'keep only what stands below "data:" and its ip-masq-* key, or apply the manifest and mount it';
    report('shape', root, 'this is a Kubernetes manifest, not the config inside it', remedy);
    return values;
  }
  for (const { key, value } of root.pairs) {
    const name = keyName(key);
    const known = knownKeys.find((candidate) => candidate.toLowerCase() === name.toLowerCase()) ?? name;
    const first = keys.get(known);
    if (first === undefined) {
      keys.set(known, key);
      values.set(known, value);
      if (!knownKeys.includes(known)) reportUnknown(known, key, report);
    } else {
      const remedy = 'keep one; the case of keys makes no difference';
      report('duplicate-key', key, `the key ${quote(name)} is set twice`, remedy, first);
    }
  }
  return values;
}

function isManifest(root: MapNode): boolean {
  const names = root.pairs.map(({ key }) => keyName(key));
  return names.includes('apiVersion') && names.includes('kind');
}

function keyName(key: Node): string {
  return key.kind === 'scalar' ? String(key.value) : `(${describe(key)})`;
}

function reportUnknown(name: string, key: Node, report: Report): void {
  const near = nearest(name, knownKeys);
  const remedy = near === undefined ? `known keys: ${knownKeys.join(', ')}` : `did you mean ${quote(near)}?`;
  report('unknown-key', key, `unknown key ${quote(name)}`, remedy);
}

function itemsOf(values: Values, key: ListKey): readonly Node[] {
  const list = values.get(key);
  return list?.kind === 'list' ? list.items : [];
}

function checkLimit(values: Values, options: ConfigOptions, report: Report): void {
  const items = [...itemsOf(values, 'nonMasqueradeCIDRs'), ...itemsOf(values, 'masqueradeCIDRs')];
  const own = values.get('cidrLimit');
  const limit = own?.kind === 'scalar' && typeof own.value === 'number' ? own.value : options.cidrLimit;
  const excess = items[limit];
  if (excess === undefined) return;
  const message = `${counted(items.length, 'CIDR')}, but this source may list only ${limit}`;
  report('cidr-limit', excess, message, 'join CIDRs into wider ones, or raise "cidrLimit"');
}

function readPrefix(item: Node, { enableIPv6 }: ConfigOptions, report: Report): Prefix | undefined {
  if (item.kind !== 'scalar' || typeof item.value !== 'string') return undefined; // the schema said so
  const parsed = parsePrefix(item.value);
  if ('error' in parsed) {
    const { message, remedy } = parsed.error;
    report('cidr', item, `${quote(item.value)} ${printable(message)}`, printable(remedy));
    return undefined;
  }
  if (parsed.prefix.family === 'IPv6' && !enableIPv6) {
    const message = `${parsed.prefix.text} is IPv6, but IPv6 is not enabled`;
    report('ipv6-disabled', item, message, 'start the agent with --enable-ipv6, or remove the entry');
  }
  return parsed.prefix;
}

/** Milliseconds. */
function readInterval(node: Node | undefined, report: Report): number | undefined {
  if (node?.kind !== 'scalar' || typeof node.value !== 'string') return undefined; // the schema said so
  const error = intervalError(node.value);
  if (error === undefined) return parseDuration(node.value);
  const message = `resyncInterval ${quote(node.value)} ${error}`;
  report('duration', node, message, 'write a Go duration such as 60s or 1m30s, from 100ms to 576h');
  return undefined;
}
