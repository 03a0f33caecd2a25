import {
  CANDIDATE_PREFIX,
  type ConfigFile,
  decodeFile,
  type Embedding,
  isConfigFileName,
  isNearMiss,
  nearMissText,
  originIn,
  problemIn,
  type TextFile,
} from '../config/config-file.ts';
import { KEY_NAMES } from '../config/keys.ts';
import { MAX_BYTES } from '../config/limits.ts';
import type { Problem, ProblemKind } from '../config/problem.ts';
import { templateAdvice } from '../config/template.ts';
import { describe, keyName, type MapNode, type Node, valueAt } from '../config/yaml.ts';
import { quote } from '../text/escape.ts';
import type { FileOrigin } from '../text/origin.ts';
import { truncatedText } from '../text/words.ts';
import type { Mounting } from './mounting.ts';
import { isOfAgent, type KubernetesObject, textAt } from './workload.ts';

type Pair = MapNode['pairs'][number];

/** Whether YAML 1.1 would add the pairs of other maps here. */
export function isMergeKey({ key }: Pair): boolean {
  return keyName(key) === '<<';
}

/** Collects the config files of a piece of a manifest, and what is wrong with how it holds them. */
export class ConfigFileCollector {
  readonly configFiles: ConfigFile[] = [];
  readonly problems: Problem[] = [];
  readonly #manifest: TextFile;
  readonly #pieceStart: number;
  readonly #said = new Set<string>();

  /** @param pieceStart where in the manifest the piece begins: the offsets of nodes count from there */
  constructor(manifest: TextFile, pieceStart: number) {
    this.#manifest = manifest;
    this.#pieceStart = pieceStart;
  }

  report(kind: ProblemKind, node: Node, message: string, remedy: string, other?: Node): void {
    const same = `${node.offset} ${message}`;
    if (this.#said.has(same)) return;
    this.#said.add(same);
    const theOther = other && this.#visible(other);
    this.problems.push(problemIn(this.#manifest, kind, this.#visible(node), message, remedy, theOther));
  }

  originOf(node: Node): FileOrigin {
    return originIn(this.#manifest, this.#visible(node).offset);
  }

  reportMergeKey(key: Node): void {
    const message = 'the merge key << is not followed: what it adds is not checked';
    this.report('shape', key, message, 'write its keys out');
  }

  /**
   * @param value where the config file stands in the file
   * @param isVerbatim whether the bytes are those of the value itself
   */
  addFile(name: string, bytes: Buffer, value: Node, isVerbatim: boolean): ConfigFile | undefined {
    if (bytes.length > MAX_BYTES) {
      const message = `${quote(name)} is larger than 1 MiB (${bytes.length} bytes)`;
      this.report('unreadable', value, message, 'split it, or use wider CIDRs');
      return undefined;
    }
    const decoded = decodeFile(name, bytes);
    if (!('text' in decoded)) {
      this.report(decoded.kind, value, `${quote(name)} ${decoded.message}`, decoded.remedy);
      return undefined;
    }
    const configFile = { ...decoded, embeddedIn: this.#embeddingOf(value, isVerbatim) };
    this.configFiles.push(configFile);
    return configFile;
  }

  /** To the character in a literal block, in which each line is one of the file; else only where the value begins. */
  #embeddingOf(value: Node, isVerbatim: boolean): Embedding {
    const file = this.#manifest;
    if (isVerbatim && value.kind === 'scalar' && value.indentation !== undefined) {
      const { line } = originIn(file, this.#pieceStart + value.offset);
      return { file, line, column: value.indentation + 1, lineByLine: true };
    }
    const { line, column } = originIn(file, this.#visible(value).offset);
    return { file, line, column, lineByLine: false };
  }

  /** Where people see the node begin: not in the indentation of a block. */
  #visible(node: Node) {
    const visible = /\S/g;
    visible.lastIndex = this.#pieceStart + node.offset;
    return { offset: visible.exec(this.#manifest.text)?.index ?? this.#pieceStart + node.offset };
  }
}

/** The fields of an object with files, and whether their values are base64. */
const FIELDS = {
  ConfigMap: { data: false, binaryData: true },
  Secret: { data: true, stringData: false },
} as const;

/** Collects the config files of a ConfigMap, or of a Secret that is mounted. */
export function readConfigMap(
  { node: configMap, kind }: KubernetesObject,
  collector: ConfigFileCollector,
  mounting: Mounting,
): void {
  const { filesOf, isUnread } = mounting;
  const templateMark = templateMarkNode(configMap);
  if (templateMark !== undefined) {
    const { message, remedy } = templateAdvice();
    collector.report('syntax', templateMark, message, remedy);
    return;
  }
  const isMisplaced = reportMisplaced(configMap, collector);
  const pairs = pairsOf(configMap, kind, collector);
  const isMounted = ({ key }: Pair) => filesOf(keyName(key)).some(({ name }) => isConfigFileName(name));
  const configFiles = withoutRepeats(pairs.filter(isMounted), collector);
  const others = pairs.filter((pair) => !isMounted(pair));
  const isFor = configFiles.length > 0 || isOfAgent(textAt(valueAt(configMap, 'metadata'), 'name'));
  if (isUnread) {
    if (isFor || pairs.some(({ key }) => isConfigFileName(keyName(key)))) mounting.reportUnread();
    return;
  }
  const nearMisses = others.filter((pair) => warnOfNames(pair.key, filesOf(keyName(pair.key)), collector));
  for (const pair of configFiles)
    for (const { name, deliver } of filesOf(keyName(pair.key))) {
      const configFile = isConfigFileName(name) ? readPair(pair, name, collector) : undefined;
      if (configFile !== undefined) deliver(configFile);
    }
  if (configFiles.length > 0) reportImmutable(configMap, collector);
  const isTold = reportUndelivered(pairs, others, mounting, collector) || (isFor && mounting.reportUnread());
  if (!isTold && pairs.length > 0 && nearMisses.length + configFiles.length === 0 && !isMisplaced)
    warnOfOtherKeys(configMap, pairs, collector);
}

function pairsOf({ pairs }: MapNode, kind: string, collector: ConfigFileCollector): readonly DataPair[] {
  const fields: Readonly<Record<string, boolean>> = FIELDS[kind === 'Secret' ? kind : 'ConfigMap'];
  return pairs.flatMap((field) => {
    const isBase64 = fields[keyName(field.key)];
    return isBase64 === undefined ? [] : dataPairs(field, isBase64, collector);
  });
}

function reportImmutable(configMap: MapNode, collector: ConfigFileCollector): void {
  const immutable = valueAt(configMap, 'immutable');
  if (immutable?.kind !== 'scalar' || immutable.value !== true) return;
  const message =
    'running agents never get a change of an immutable ConfigMap: kubelet does not look for one';
  const remedy = 'remove "immutable"; or, if each change is a ConfigMap of another name, leave it';
  collector.report('not-updated', immutable, message, remedy);
}

/** Reports keys that a volume names and that are not there, and keys of config files that no volume takes; whether there are any. */
function reportUndelivered(
  pairs: readonly Pair[],
  others: readonly Pair[],
  { sources, filesOf }: Mounting,
  collector: ConfigFileCollector,
): boolean {
  const names = new Set(pairs.map(({ key }) => keyName(key)));
  const missing = sources.flatMap((source) =>
    (source.items ?? []).filter(({ key }) => !names.has(key)).map((item) => ({ item, source })),
  );
  for (const { item, source } of missing) {
    const at = valueAt(item.node, 'key') ?? item.node;
    const known = truncatedText([...names], 5, quote);
    const message = `${source.kind} ${quote(source.name ?? '')} has no key ${quote(item.key)}: ${
      source.isOptional ? 'the file is not there' : 'kubelet cannot mount the volume, and no pod starts'
    }`;
    const remedy = `write a key that it has${known === '' ? '' : `, such as ${known}`}, or remove the item`;
    source.object.report(source.isOptional ? 'not-a-config-file' : 'not-delivered', at, message, remedy);
  }
  const untaken = others.filter(
    ({ key }) => sources.length > 0 && isConfigFileName(keyName(key)) && filesOf(keyName(key)).length === 0,
  );
  for (const { key } of untaken) {
    const message = `the key ${quote(keyName(key))} is not read: the volume has only the keys of its items`;
    collector.report('not-delivered', key, message, 'add it to the items, or remove it');
  }
  return missing.length + untaken.length > 0;
}

/** Keys beside `data` that belong below it, and keys of a config file that are where the name of the file belongs. */
function reportMisplaced(configMap: MapNode, collector: ConfigFileCollector): boolean {
  const isKeyOfConfig = (name: string) => KEY_NAMES.some((one) => one.toLowerCase() === name.toLowerCase());
  const beside = configMap.pairs.find(
    ({ key }) => keyName(key).startsWith(CANDIDATE_PREFIX) || isKeyOfConfig(keyName(key)),
  );
  if (beside !== undefined) {
    const message = `${quote(keyName(beside.key))} stands beside "data:", not below it`;
    collector.report('shape', beside.key, message, 'indent it further than "data:", with all that follows');
  }
  const data = valueAt(configMap, 'data');
  const below = data?.kind === 'map' ? data.pairs.find(({ key }) => isKeyOfConfig(keyName(key))) : undefined;
  if (below !== undefined) {
    const message = `${quote(keyName(below.key))} stands directly below "data:", where the name of the config file belongs`;
    collector.report(
      'shape',
      below.key,
      message,
      'write "ip-masq-…: |" above it, and indent the config further',
    );
  }
  return beside !== undefined || below !== undefined;
}

/** Warns of a key that becomes no config file, if it is likely to be meant as one. */
function warnOfNames(
  key: Node,
  files: ReturnType<Mounting['filesOf']>,
  collector: ConfigFileCollector,
): boolean {
  const meant = files.filter(
    ({ name, saidAt }) =>
      isNearMiss(name) || (saidAt !== undefined && keyName(key).startsWith(CANDIDATE_PREFIX)),
  );
  for (const { name, saidAt } of meant)
    if (saidAt === undefined)
      collector.report('not-a-config-file', key, `the key ${quote(name)} ${nearMissText}`, 'rename it');
    else {
      const message = `the file ${quote(name)} ${nearMissText}`;
      saidAt.object.report('not-a-config-file', saidAt.node, message, 'write another path for the key');
    }
  return meant.length > 0;
}

/** The mark of a template, `{{ .Values.name }}`, where YAML takes it for a map whose key is a map. */
function templateMarkNode(configMap: MapNode): Node | undefined {
  const pending: Node[] = [configMap];
  const seen = new Set<Node>();
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (seen.has(node)) continue;
    seen.add(node);
    if (node.kind === 'map' && node.pairs.some(({ key }) => key.kind === 'map' && !hasMapKey(key)))
      return node;
    for (const part of partsOf(node).toReversed()) pending.push(part);
  }
  return undefined;
}

function hasMapKey({ pairs }: MapNode): boolean {
  return pairs.some(({ key }) => key.kind === 'map');
}

export function partsOf(node: Node): readonly Node[] {
  if (node.kind === 'list') return node.items;
  return node.kind === 'map' ? node.pairs.flatMap(({ key, value }) => [key, value]) : [];
}

/** The first pair of each key; the others are reported. */
export function withoutRepeats<P extends Pair>(
  pairs: readonly P[],
  collector: ConfigFileCollector,
): readonly P[] {
  const firsts = new Map<string, P>();
  for (const pair of pairs) {
    const name = keyName(pair.key);
    const first = firsts.get(name);
    if (first === undefined) firsts.set(name, pair);
    else {
      const message = `the key ${quote(name)} is set twice`;
      collector.report(
        'duplicate-key',
        pair.key,
        message,
        'keep one; if two objects stand here, write a line "---" between them',
        first.key,
      );
    }
  }
  return [...firsts.values()];
}

/** A key of `data` or `binaryData`. */
interface DataPair extends Pair {
  readonly isBase64: boolean;
}

function dataPairs(
  { key, value }: Pair,
  isBase64: boolean,
  collector: ConfigFileCollector,
): readonly DataPair[] {
  const field = keyName(key);
  if (value.kind === 'map') {
    for (const pair of value.pairs.filter(isMergeKey)) collector.reportMergeKey(pair.key);
    return value.pairs.map((pair) => ({ ...pair, isBase64 }));
  }
  if (value.kind === 'scalar' && value.value === null) return [];
  const message = `${field} of a ConfigMap must be a map, but is ${describe(value)}`;
  collector.report('shape', value, message, 'write "ip-masq-…: |" and the config below');
  return [];
}

function readPair(
  { key, value, isBase64 }: DataPair,
  file: string,
  collector: ConfigFileCollector,
): ConfigFile | undefined {
  const name = keyName(key);
  if (value.kind !== 'scalar' || (value.value !== null && typeof value.value !== 'string')) {
    const message = `the value of ${quote(name)} must be text, but is ${describe(value)}`;
    const remedy = `write ${quote(`${name}: |`)} and the config below, indented`;
    collector.report('shape', value, message, remedy);
    return undefined;
  }
  const text = value.value ?? '';
  if (!isBase64) return collector.addFile(file, Buffer.from(text), text.trim() === '' ? key : value, true);
  const base64 = text.replace(/[\r\n]/g, ''); // as Go reads it
  if (base64.length % 4 === 0 && !/[^A-Za-z0-9+/]/.test(base64.replace(/={1,2}$/, '')))
    return collector.addFile(file, Buffer.from(base64, 'base64'), value, false);
  const message = `the value of ${quote(name)} in binaryData is not base64`;
  collector.report('encoding', value, message, 'encode it, or move it to data');
  return undefined;
}

/** Older agents read a key `config`, which a volume mounts as `ip-masq-agent`: without it, they would take their defaults. */
function warnOfOtherKeys(configMap: MapNode, pairs: readonly Pair[], collector: ConfigFileCollector): void {
  const metadata = valueAt(configMap, 'metadata');
  const name = textAt(metadata, 'name') ?? '';
  if (!isOfAgent(name)) return;
  const message = `no key of ConfigMap ${quote(name)} begins with ip-masq-: nothing of it is read`;
  const remedy = pairs.some(({ key }) => keyName(key) === 'config')
    ? 'leave the key, which older agents read; mount it with items: [{key: config, path: ip-masq-agent}], and check it in one file with the workload of that volume'
    : 'rename the key; if a volume mounts it under another name, check it in one file with the workload of that volume';
  collector.report('not-a-config-file', valueAt(metadata, 'name') ?? configMap, message, remedy);
}
