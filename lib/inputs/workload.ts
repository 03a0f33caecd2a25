import { posix } from 'node:path';
import type { ConfigFile } from '../config/config-file.ts';
import type { ProblemKind } from '../config/problem.ts';
import { type MapNode, type Node, valueAt } from '../config/yaml.ts';
import { quote } from '../text/escape.ts';
import type { FileOrigin } from '../text/origin.ts';

/** A Kubernetes object; the kind is empty if neither the object nor the list around it says it. */
export interface KubernetesObject {
  readonly node: MapNode;
  readonly kind: string;
  readonly report: (kind: ProblemKind, node: Node, message: string, remedy: string) => void;
  readonly originOf: (node: Node) => FileOrigin;
}

/** What has pods, and what kubelet puts into their volumes. */
export interface Workload {
  /** As people call it: kind, namespace and name. */
  readonly name: string;
  readonly isAgent: boolean;
  /** What an agent is started with. */
  readonly args: readonly Argument[];
  /** Of the config directory of an agent; of all volumes of others. */
  readonly sources: readonly Source[];
  /** What an agent finds in its config directory; filled in while ConfigMaps are read. */
  readonly configFiles: ConfigFile[];
}

/** An argument as the process gets it. */
export interface Argument {
  readonly text: string;
  readonly origin: FileOrigin;
  /** Whether a part of it is known only in the cluster. */
  readonly isUnknown: boolean;
}

/** A ConfigMap or a Secret of which a volume makes files. */
export interface Source {
  readonly kind: 'ConfigMap' | 'Secret';
  readonly name: string | undefined;
  /** Of the workload; undefined if the manifest does not say it. */
  readonly namespace: string | undefined;
  /** Undefined for all keys, each a file of its name. */
  readonly items: readonly Item[] | undefined;
  readonly isOptional: boolean;
  readonly node: Node;
  readonly object: KubernetesObject;
}

/** A key that becomes a file. */
export interface Item {
  readonly key: string;
  readonly path: string;
  /** Where the volume says the key, and the path. */
  readonly node: Node;
  readonly pathNode: Node;
  readonly object: KubernetesObject;
}

/** The first value of that key, if it is text. */
export function textAt(node: Node | undefined, name: string): string | undefined {
  const value = valueAt(node, name);
  return value?.kind === 'scalar' && typeof value.value === 'string' ? value.value : undefined;
}

/** Whether a text, such as the name of a ConfigMap, is likely to be about the agent, or about an older one. */
export function isOfAgent(text = ''): boolean {
  return /ip-?masq/.test(text);
}

/** The workloads among the objects, without pods that another one makes. Of those that share a pod by an alias only the first. */
export function workloadsOf(objects: readonly KubernetesObject[]): readonly Workload[] {
  const seen = new Set<Node>();
  return objects.flatMap((object) => {
    const pod = podOf(object.node);
    const isOwned = valueAt(valueAt(object.node, 'metadata'), 'ownerReferences') !== undefined;
    if (pod === undefined || isOwned || seen.has(pod)) return [];
    seen.add(pod);
    return workloadOf(object, pod);
  });
}

function podOf(object: MapNode): Node | undefined {
  const spec = valueAt(object, 'spec');
  const job = valueAt(valueAt(spec, 'jobTemplate'), 'spec');
  const pod = valueAt(valueAt(job ?? spec, 'template'), 'spec') ?? spec;
  return valueAt(pod, 'volumes') === undefined && valueAt(pod, 'containers') === undefined ? undefined : pod;
}

function workloadOf(object: KubernetesObject, pod: Node): Workload {
  const metadata = valueAt(object.node, 'metadata');
  const path = ['namespace', 'name'].flatMap((key) => textAt(metadata, key) ?? []).join('/');
  const name = `${object.kind || 'workload'} ${path}`.trimEnd();
  const volumes = listOf(valueAt(pod, 'volumes')).map((volume) => volumeOf(object, volume));
  const agent = listOf(valueAt(pod, 'containers')).find(runsAgent);
  const args = agent === undefined ? [] : argumentsOf(agent, object);
  const inDirectory = agent && sourcesOfAgent(object, pod, agent, volumes, configDirOf(args));
  return {
    name,
    isAgent: inDirectory !== undefined,
    args,
    sources: inDirectory ?? volumes.flatMap(({ sources }) => sources),
    configFiles: [],
  };
}

/** Whether it runs the agent itself, or an older one, and none of its other commands. */
function runsAgent(container: Node): boolean {
  const [command] = textsOf(valueAt(container, 'command'));
  const [first = ''] = textsOf(valueAt(container, 'args'));
  const names = command === undefined ? [textAt(container, 'image'), textAt(container, 'name')] : [command];
  const isProgram = names.some((name) => /ip-?masq-agent/.test(name ?? ''));
  return (
    isProgram && valueAt(container, 'image') !== undefined && (!/^[a-z]+$/.test(first) || first === 'run')
  );
}

function textsOf(list: Node | undefined): readonly string[] {
  return listOf(list).map((one) => (one.kind === 'scalar' ? String(one.value) : ''));
}

/** Its arguments, with what the manifest says of its environment (Kubernetes, "Define Dependent Environment Variables"). */
function argumentsOf(container: Node, { originOf }: KubernetesObject): readonly Argument[] {
  const isOpen = valueAt(container, 'envFrom') !== undefined;
  const env = new Map<string, string | undefined>();
  const expand = (text: string) => {
    let isUnknown = false;
    const expanded = text.replace(/\$\$|\$\(([^)]+)\)/g, (all, name?: string) => {
      if (name === undefined) return '$';
      const value = env.get(name);
      isUnknown ||= value === undefined && (env.has(name) || isOpen);
      return value ?? all;
    });
    return { text: expanded, isUnknown };
  };
  for (const one of listOf(valueAt(container, 'env'))) {
    const value = expand(textAt(one, 'value') ?? '');
    const isUnknown = value.isUnknown || valueAt(one, 'valueFrom') !== undefined;
    env.set(textAt(one, 'name') ?? '', isUnknown ? undefined : value.text);
  }
  const words = [...listOf(valueAt(container, 'command')).slice(1), ...listOf(valueAt(container, 'args'))];
  const texts = textsOf({ kind: 'list', items: words, offset: 0 });
  return words.map((word, index) => ({ ...expand(texts[index] ?? ''), origin: originOf(word) }));
}

function configDirOf(args: readonly Argument[]): string {
  const texts = args.map(({ text }) => text);
  const at = texts.findLastIndex((text) => /^--?config-dir(?:=|$)/.test(text));
  const dir = texts[at]?.split('=')[1] ?? texts[at + 1];
  return at === -1 || dir === undefined ? '/etc/config' : directory(dir);
}

function directory(path: string): string {
  return posix.join(path, '/').slice(0, -1);
}

interface Volume {
  readonly name: string;
  readonly node: Node;
  readonly sources: readonly Source[];
}

function volumeOf(object: KubernetesObject, node: Node): Volume {
  const projected = listOf(valueAt(valueAt(node, 'projected'), 'sources'));
  const sources = [node, ...projected].flatMap((one) => [
    ...sourceOf(object, 'ConfigMap', valueAt(one, 'configMap'), 'name'),
    ...sourceOf(object, 'Secret', valueAt(one, 'secret'), one === node ? 'secretName' : 'name'),
  ]);
  return { name: textAt(node, 'name') ?? '', node, sources };
}

function sourceOf(
  object: KubernetesObject,
  kind: Source['kind'],
  node: Node | undefined,
  nameKey: string,
): readonly Source[] {
  if (node === undefined) return [];
  if (node.kind === 'scalar') {
    const message = `this source names no ${kind}: kubelet cannot mount the volume`;
    object.report('not-delivered', node, message, 'indent its name further than the line above');
  }
  const items = listOf(valueAt(node, 'items'));
  const optional = valueAt(node, 'optional');
  return [
    {
      kind,
      name: textAt(node, nameKey),
      namespace: textAt(valueAt(object.node, 'metadata'), 'namespace'),
      items: items.length === 0 ? undefined : items.map((item) => itemOf(object, item)),
      isOptional: optional?.kind === 'scalar' && optional.value === true,
      node: valueAt(node, nameKey) ?? node,
      object,
    },
  ];
}

function itemOf(object: KubernetesObject, item: Node): Item {
  const [node = item, pathNode = item] = ['key', 'path'].map((name) => valueAt(item, name));
  return { key: textAt(item, 'key') ?? '', path: textAt(item, 'path') ?? '', node, pathNode, object };
}

/** What the config directory holds; undefined if something else than ConfigMaps and Secrets is mounted there. */
function sourcesOfAgent(
  object: KubernetesObject,
  pod: Node,
  agent: Node,
  volumes: readonly Volume[],
  configDir: string,
): readonly Source[] | undefined {
  const mounts = mountsOf(agent);
  const inPod = new Set(
    listOf(valueAt(pod, 'containers'))
      .flatMap(mountsOf)
      .map(({ volume }) => volume),
  );
  const found: Source[] = [];
  for (const volume of volumes) {
    const own = mounts.filter((mount) => mount.volume === volume.name);
    const isHere = own.some(({ path }) => path === configDir);
    if (isHere && volume.sources.length === 0) return undefined;
    const [elsewhere] = own;
    if (isHere) found.push(...volume.sources);
    else if (volume.sources.some(isForAgent) && (elsewhere !== undefined || !inPod.has(volume.name))) {
      found.push(...volume.sources);
      const message = `the volume ${quote(volume.name)} is mounted ${elsewhere === undefined ? 'by no container' : `at ${quote(elsewhere.path)}`}, but the agent reads ${configDir}`;
      const remedy = `mount it at ${configDir} in the container of the agent`;
      object.report('not-delivered', elsewhere?.node ?? volume.node, message, remedy);
    }
  }
  return found;
}

function isForAgent({ name, items = [] }: Source): boolean {
  return isOfAgent(name) || items.some(({ path }) => isOfAgent(path));
}

interface VolumeMount {
  readonly volume: string | undefined;
  readonly path: string;
  readonly node: Node;
}

function mountsOf(container: Node): readonly VolumeMount[] {
  return listOf(valueAt(container, 'volumeMounts')).map((mount) => ({
    volume: textAt(mount, 'name'),
    path: directory(textAt(mount, 'mountPath') ?? ''),
    node: valueAt(mount, 'mountPath') ?? mount,
  }));
}

function listOf(node: Node | undefined): readonly Node[] {
  return node?.kind === 'list' ? node.items : [];
}
