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
import { isOfAgent, type Mounting, textAt } from './mounts.ts';

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

  /** @param pieceStart where in the manifest the piece begins: the offsets of nodes count from there */
  constructor(manifest: TextFile, pieceStart: number) {
    this.#manifest = manifest;
    this.#pieceStart = pieceStart;
  }

  report(kind: ProblemKind, node: Node, message: string, remedy: string, other?: Node): void {
    const theOther = other && this.#visible(other);
    this.problems.push(problemIn(this.#manifest, kind, this.#visible(node), message, remedy, theOther));
  }

  reportMergeKey(key: Node): void {
    const message = 'the merge key << is not followed: what it adds is not checked';
    this.report('shape', key, message, 'write its keys out');
  }

  /**
   * @param value where the config file stands in the file
   * @param isVerbatim whether the bytes are those of the value itself
   */
  addFile(name: string, bytes: Buffer, value: Node, isVerbatim: boolean): void {
    if (bytes.length > MAX_BYTES) {
      const message = `${quote(name)} is larger than 1 MiB (${bytes.length} bytes)`;
      this.report('unreadable', value, message, 'split it, or use wider CIDRs');
      return;
    }
    const decoded = decodeFile(name, bytes);
    if ('text' in decoded)
      this.configFiles.push({ ...decoded, embeddedIn: this.#embeddingOf(value, isVerbatim) });
    else this.report(decoded.kind, value, `${quote(name)} ${decoded.message}`, decoded.remedy);
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

/** Collects the config files of a ConfigMap. */
export function readConfigMap(
  configMap: MapNode,
  collector: ConfigFileCollector,
  { filesOf, stray }: Mounting,
): void {
  const templateMark = templateMarkNode(configMap);
  if (templateMark !== undefined) {
    const { message, remedy } = templateAdvice();
    collector.report('syntax', templateMark, message, remedy);
    return;
  }
  const fields = configMap.pairs.filter(({ key }) => ['data', 'binaryData'].includes(keyName(key)));
  const isMisplaced = reportMisplaced(configMap, collector);
  const pairs = fields.flatMap((field) => dataPairs(field, collector));
  const isMounted = ({ key }: Pair) => filesOf(keyName(key)).some(({ name }) => isConfigFileName(name));
  const configFiles = withoutRepeats(pairs.filter(isMounted), collector);
  const nearMisses = pairs.filter(
    (pair) => !isMounted(pair) && warnOfNames(pair.key, filesOf(keyName(pair.key)), collector),
  );
  for (const pair of configFiles)
    for (const { name } of filesOf(keyName(pair.key)))
      if (isConfigFileName(name)) readPair(pair, name, collector);
  const name = textAt(valueAt(configMap, 'metadata'), 'name');
  const isFor = configFiles.length > 0 || isOfAgent(name);
  if (isFor && stray?.name !== undefined) {
    const message = `the volume mounts the ConfigMap ${quote(stray.name)}, but the one here is ${quote(name ?? '')}`;
    stray.warn('name', message, 'use one name in both');
  } else if (pairs.length > 0 && nearMisses.length + configFiles.length === 0 && !isMisplaced)
    warnOfOtherKeys(configMap, pairs, collector);
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
    ({ name, mount }) =>
      isNearMiss(name) || (mount !== undefined && keyName(key).startsWith(CANDIDATE_PREFIX)),
  );
  for (const { name, mount } of meant)
    if (mount === undefined)
      collector.report('not-a-config-file', key, `the key ${quote(name)} ${nearMissText}`, 'rename it');
    else mount.warn('path', `the file ${quote(name)} ${nearMissText}`, 'write another path for the key');
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

function dataPairs({ key, value }: Pair, collector: ConfigFileCollector): readonly DataPair[] {
  const field = keyName(key);
  if (value.kind === 'map') {
    for (const pair of value.pairs.filter(isMergeKey)) collector.reportMergeKey(pair.key);
    return value.pairs.map((pair) => ({ ...pair, isBase64: field === 'binaryData' }));
  }
  if (value.kind === 'scalar' && value.value === null) return [];
  const message = `${field} of a ConfigMap must be a map, but is ${describe(value)}`;
  collector.report('shape', value, message, 'write "ip-masq-…: |" and the config below');
  return [];
}

function readPair({ key, value, isBase64 }: DataPair, file: string, collector: ConfigFileCollector): void {
  const name = keyName(key);
  if (value.kind !== 'scalar' || (value.value !== null && typeof value.value !== 'string')) {
    const message = `the value of ${quote(name)} must be text, but is ${describe(value)}`;
    const remedy = `write ${quote(`${name}: |`)} and the config below, indented`;
    collector.report('shape', value, message, remedy);
    return;
  }
  const text = value.value ?? '';
  if (!isBase64) {
    collector.addFile(file, Buffer.from(text), text.trim() === '' ? key : value, true);
    return;
  }
  const base64 = text.replace(/[\r\n]/g, ''); // as Go reads it
  if (base64.length % 4 === 0 && !/[^A-Za-z0-9+/]/.test(base64.replace(/={1,2}$/, ''))) {
    collector.addFile(file, Buffer.from(base64, 'base64'), value, false);
    return;
  }
  const message = `the value of ${quote(name)} in binaryData is not base64`;
  collector.report('encoding', value, message, 'encode it, or move it to data');
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
