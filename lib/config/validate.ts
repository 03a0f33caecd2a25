import type { Advice } from '../text/advice.ts';
import { PlacedError } from '../text/error.ts';
import { printable, quote } from '../text/escape.ts';
import type { Located } from '../text/origin.ts';
import { counted } from '../text/words.ts';
import type { ConfigOptions, ParsedConfig } from './config.ts';
import { type ConfigFile, originIn, problemIn } from './config-file.ts';
import type { NoteProblem } from './key.ts';
import { CIDR_LIMIT_KEY, KEY_NAMES, keyNamed, LIMITED_KEYS, parseKeys } from './keys.ts';
import { MAX_PROBLEMS, maxIndicators } from './limits.ts';
import type { Problem } from './problem.ts';
import { misshapes } from './shape.ts';
import { countIndicators } from './size.ts';
import { keyName, type MapNode, type Node, type Pair, parseYaml } from './yaml.ts';

export interface ValidatedFile {
  /** What could be understood; not to be applied if a problem is an error. */
  readonly config: ParsedConfig;
  /** From top to bottom, of very many one more than is reported. */
  readonly problems: readonly Problem[];
  /** How many CIDRs the config file lists, valid or not. */
  readonly cidrCount: number;
  /** Whether it sets no key. */
  readonly isEmpty: boolean;
}

/** Reads one config file: its syntax, its shape by the schema, then what a schema cannot say. */
export function validateFile(file: ConfigFile, options: ConfigOptions): ValidatedFile {
  const found: { readonly offset: number; readonly make: () => Problem }[] = [];
  /** What the schema has said something about. */
  const refused = new Set<unknown>();
  const report: NoteProblem = (kind, at, ...others) => {
    if (!refused.has(at)) found.push({ offset: at.offset, make: () => problemIn(file, kind, at, ...others) });
  };
  const located = <Value>(value: Value, { offset }: Node): Located<Value> => ({
    value,
    origin: originIn(file, offset),
  });

  const root = parse(file.text, options, report);
  const spelt = spelledOut(root, report);
  const values = valuesOf(spelt);
  const cidrCount = checkedCount(values, options, report);
  const wrong = spelt === undefined ? [] : misshapes(spelt, values);
  for (const { kind, node, message, remedy } of wrong) report(kind, node, message, remedy);
  for (const { node } of wrong) refused.add(node);
  const context = { families: options.families, report, located };
  const config: ParsedConfig = {
    configFileName: file.name,
    nonMasqueradeOrigin: originIn(file, (values.get('nonMasqueradeCIDRs') ?? root)?.offset ?? 0),
    ...parseKeys(values, context),
  };
  // Each step goes through the whole text: a later step may find a mistake further up.
  const first = found.sort((a, b) => a.offset - b.offset).slice(0, MAX_PROBLEMS + 1);
  const problems = first.map(({ make }) => make());
  return { config, problems, cidrCount, isEmpty: values.size === 0 };
}

/** Values by key as the schema spells it. */
type Values = ReadonlyMap<string, Node>;

/** The map of keys; undefined if the text holds none. */
function parse(text: string, { cidrLimitMax }: ConfigOptions, report: NoteProblem): MapNode | undefined {
  try {
    countIndicators(text, maxIndicators(cidrLimitMax));
    const root = parseYaml(text);
    if (root?.kind === 'map') return root;
    if (root === undefined) {
      const remedy = 'write a config, or remove the file: an empty one still turns off the RFC 1918 defaults';
      report('empty', { offset: 0 }, 'the document is empty', remedy);
    } else for (const { kind, node, message, remedy } of misshapes(root)) report(kind, node, message, remedy);
  } catch (error) {
    if (!(error instanceof PlacedError)) throw error;
    report('syntax', error, printable(error.message), error.remedy);
  }
  return undefined;
}

/** The config with its keys as the schema spells them, unknown ones too; undefined if it is something else than a config. */
function spelledOut(root: MapNode | undefined, report: NoteProblem): MapNode | undefined {
  if (root === undefined) return undefined;
  const nested = nestedKey(root);
  if (nested !== undefined) {
    const { message, remedy } = nestedAdvice(nested, root);
    report('shape', nested.key, message, remedy);
    return undefined;
  }
  const map = folded(root, KEY_NAMES, report);
  const pairs = map.pairs.map(({ key, value }) => ({
    key,
    value: withFoldedItems(value, keyName(key), report),
  }));
  return { ...map, pairs };
}

function valuesOf(config: MapNode | undefined): Values {
  return new Map(config?.pairs.map(({ key, value }) => [keyName(key), value]));
}

interface NestedKey {
  readonly path: readonly string[];
  readonly key: Node;
}

/** What else than a config file it looks like, and how to make one of it. */
function nestedAdvice({ path }: NestedKey, { pairs }: MapNode): Advice {
  const above = path.slice(0, -1).join('.');
  const advice = (where: string, what: string, remedy: string): Advice => ({
    message: `${path.at(-1)} is ${where} ${quote(above)}, as in ${what}: a config file has it at the top`,
    remedy,
  });
  if (path.length === 2 && pairs.every(({ value }) => value.kind === 'scalar'))
    return advice(
      'in the text of',
      'the data of a ConfigMap',
      `remove the line ${quote(`${above}: |`)}, and the indentation of the lines below it`,
    );
  if (path[0] === 'data' || path[0] === 'spec')
    return advice(
      'below',
      'a Kubernetes object',
      `keep only the lines below ${quote(above)}, without their indentation`,
    );
  const remedy = 'render the chart and check that: helm template … | ip-masq-agent check -f -';
  return advice('below', 'the values of a Helm chart', remedy);
}

/** A known key in a map, or in a text, below other keys; undefined if the map has one itself, or if there is none. */
function nestedKey(root: MapNode): NestedKey | undefined {
  const known = new Set(KEY_NAMES.map((name) => name.toLowerCase()));
  const isKnown = ({ key }: MapNode['pairs'][number]) => known.has(keyName(key).toLowerCase());
  if (root.pairs.some(isKnown)) return undefined;
  const seen = new Set<Node>();
  const find = (map: MapNode, path: readonly string[]): NestedKey | undefined => {
    if (seen.has(map)) return undefined;
    seen.add(map);
    for (const pair of map.pairs) {
      const { key, value } = pair;
      const here = [...path, keyName(key)];
      if (isKnown(pair)) return { path: here, key };
      const text = value.kind === 'scalar' && typeof value.value === 'string' ? value.value : '';
      const named = KEY_NAMES.find((name) => text.includes(`${name}:`));
      if (named !== undefined) return { path: [...here, named], key };
      const found = value.kind === 'map' ? find(value, here) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  };
  return find(root, []);
}

/** A list whose items have their keys as the schema spells them. */
function withFoldedItems(list: Node, name: string, report: NoteProblem): Node {
  const itemKeys = keyNamed(name)?.itemKeys ?? [];
  if (list.kind !== 'list' || itemKeys.length === 0) return list;
  // Aliases stand for the same item, which may be large: what it has of unknown keys is said once.
  const repeated = new Map<Node, MapNode>();
  const items = list.items.map((item) => {
    if (item.kind !== 'map') return item;
    const again = repeated.get(item);
    if (again !== undefined) return again;
    const map = folded(item, itemKeys, report);
    repeated.set(item, { ...map, pairs: map.pairs.filter(({ key }) => itemKeys.includes(keyName(key))) });
    return map;
  });
  return { ...list, items };
}

/** The map with its keys, which may be in any case, as they are known; reports those that are set twice. */
function folded(map: MapNode, known: readonly string[], report: NoteProblem): MapNode {
  const pairs = new Map<string, Pair>();
  for (const { key, value } of map.pairs) {
    const name = keyName(key);
    const meant = known.find((candidate) => candidate.toLowerCase() === name.toLowerCase()) ?? name;
    const first = pairs.get(meant);
    if (first === undefined) {
      const { offset } = key;
      pairs.set(meant, { key: { kind: 'scalar', value: meant, offset, indentation: undefined }, value });
      continue;
    }
    const remedy = 'keep one; the case of keys makes no difference';
    report('duplicate-key', key, `the key ${quote(name)} is set twice`, remedy, first.key);
  }
  return { ...map, pairs: [...pairs.values()] };
}

function itemsOf(values: Values, key: string): readonly Node[] {
  const list = values.get(key);
  return list?.kind === 'list' ? list.items : [];
}

/** How many CIDRs there are; reports too many. */
function checkedCount(
  values: Values,
  { cidrLimit, cidrLimitMax }: ConfigOptions,
  report: NoteProblem,
): number {
  const own = values.get(CIDR_LIMIT_KEY.name);
  const wanted = own?.kind === 'scalar' && isCount(own.value) ? own.value : cidrLimit;
  if (own !== undefined && wanted > cidrLimitMax) {
    const message = `cidrLimit is ${wanted}, but no config file may list more than ${counted(cidrLimitMax, 'CIDR')}`;
    report('cidr-limit', own, message, 'lower it, or start the agent with a larger --cidr-limit-max');
  }
  const limit = Math.min(wanted, cidrLimitMax);
  const items = LIMITED_KEYS.flatMap((key) => itemsOf(values, key));
  const excess = items[limit];
  if (excess === undefined) return items.length;
  const message = `${counted(items.length, 'CIDR')}, but this config file may list only ${limit}`;
  const more = limit < cidrLimitMax ? 'raise "cidrLimit"' : 'start the agent with a larger --cidr-limit-max';
  report('cidr-limit', excess, message, `join CIDRs into wider ones, or ${more}`);
  return items.length;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0;
}
