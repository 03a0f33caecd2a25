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
import { MAX_BYTES } from '../config/limits.ts';
import type { Problem, ProblemKind } from '../config/problem.ts';
import { describe, keyName, type MapNode, type Node, type Pair, valueAt } from '../config/yaml.ts';
import { quote } from '../text/escape.ts';
import type { FileOrigin } from '../text/origin.ts';
import { truncatedText } from '../text/words.ts';
import type { MountedFile, Mounting } from './mounting.ts';
import { isOfAgent, type KubernetesObject, textAt } from './workload.ts';

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

  report(kind: ProblemKind, node: Node, message: string, remedy: string): void {
    this.problems.push(problemIn(this.#manifest, kind, this.#visible(node), message, remedy));
  }

  originOf(node: Node): FileOrigin {
    return originIn(this.#manifest, this.#visible(node).offset);
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
  const metadata = valueAt(configMap, 'metadata');
  const isOwn = isOfAgent(textAt(metadata, 'name'));
  const pairs = pairsOf(configMap, kind, collector);
  if (mounting.isUnread) {
    // One of the agent's name may hold something else, such as a dashboard. Older agents read a key `config`.
    const isConfig = (name: string) => isConfigFileName(name) || (isOwn && name === 'config');
    if (pairs.some(({ key }) => isConfig(keyName(key)))) mounting.reportUnread();
    return;
  }
  const files = pairs.flatMap((pair) => mounting.filesOf(keyName(pair.key)).map((file) => ({ pair, file })));
  const configFiles = files.filter(({ file }) => isConfigFileName(file.name));
  const nearMisses = files.filter(({ pair, file }) => isMeant(pair, file));
  for (const { pair, file } of configFiles) {
    const configFile = readPair(pair, file.name, collector);
    if (configFile !== undefined) file.deliver(configFile);
  }
  for (const { pair, file } of nearMisses) {
    const [object, node] =
      file.item === undefined ? [collector, pair.key] : [file.item.object, file.item.pathNode];
    object.report('not-a-config-file', node, `the file ${quote(file.name)} ${nearMissText}`, 'rename it');
  }
  if (configFiles.length > 0) reportImmutable(configMap, collector);
  const isTold = reportUndelivered(pairs, mounting, collector);
  if (isOwn && !isTold && pairs.length > 0 && nearMisses.length + configFiles.length === 0)
    collector.report(
      'not-a-config-file',
      valueAt(metadata, 'name') ?? configMap,
      'no key of this ConfigMap begins with ip-masq-: nothing of it is read',
      // Older agents read a key `config`, which a volume mounts as `ip-masq-agent`.
      'rename the key, or mount it under such a name, as in items: [{key: config, path: ip-masq-agent}], and check it in one file with the workload of that volume',
    );
}

/** Whether a file that is no config file is likely to be meant as one. */
function isMeant({ key }: DataPair, { name, item }: MountedFile): boolean {
  if (isConfigFileName(name)) return false;
  return isNearMiss(name) || (item !== undefined && keyName(key).startsWith(CANDIDATE_PREFIX));
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
  const remedy = 'remove "immutable"; or, if you make a ConfigMap with a new name for each change, keep it';
  collector.report('not-updated', immutable, message, remedy);
}

/** Reports keys that a volume names and that are not there, and keys of config files that no volume takes; whether there are any. */
function reportUndelivered(
  pairs: readonly Pair[],
  { sources, filesOf }: Mounting,
  collector: ConfigFileCollector,
): boolean {
  const names = new Set(pairs.map(({ key }) => keyName(key)));
  const items = sources.flatMap((source) => (source.items ?? []).map((item) => ({ item, source })));
  const missing = items.filter(({ item }) => !names.has(item.key));
  for (const { item, source } of missing) {
    const known = truncatedText([...names], 5, quote);
    const message = `${source.kind} ${quote(source.name ?? '')} has no key ${quote(item.key)}: ${
      source.isOptional ? 'the file is not there' : 'kubelet cannot mount the volume, and no pod starts'
    }`;
    const remedy = `write a key that it has${known === '' ? '' : `, such as ${known}`}, or remove the item`;
    const kind = source.isOptional ? 'not-a-config-file' : 'not-delivered';
    source.object.report(kind, item.node, message, remedy);
  }
  const untaken = pairs.filter(
    ({ key }) => isConfigFileName(keyName(key)) && filesOf(keyName(key)).length === 0,
  );
  for (const { key } of untaken) {
    const message = `the key ${quote(keyName(key))} is not read: the volume has only the keys of its items`;
    collector.report('not-delivered', key, message, 'add it to the items, or remove it');
  }
  return missing.length + untaken.length > 0;
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
  if (value.kind === 'map') return value.pairs.map((pair) => ({ ...pair, isBase64 }));
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
