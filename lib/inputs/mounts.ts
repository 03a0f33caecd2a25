import { type MapNode, type Node, valueAt } from '../config/yaml.ts';
/** Warns of what stands at the node. */
export type Warn = (node: Node, message: string, remedy: string) => void;

/** The first value of that key, if it is text. */
export function textAt(node: Node | undefined, name: string): string | undefined {
  const value = valueAt(node, name);
  return value?.kind === 'scalar' && typeof value.value === 'string' ? value.value : undefined;
}

/** Whether a ConfigMap of that name is likely to be for the agent, or for an older one. */
export function isOfAgent(name = ''): boolean {
  return /ip-?masq/.test(name);
}

/** A file that a volume of a workload makes of a key of a ConfigMap. */
interface Mount {
  readonly name: string | undefined;
  /** Of the workload; undefined if the manifest does not say it. */
  readonly namespace: string | undefined;
  /** Undefined for all keys, each a file of its name. */
  readonly key: string | undefined;
  readonly path: string | undefined;
  /** Warns of its name or path. */
  readonly warn: (of: 'name' | 'path', message: string, remedy: string) => void;
}

/** A file that a key of a ConfigMap becomes. */
interface MountedFile {
  /** A path, if it is mounted into a folder. */
  readonly name: string;
  /** Undefined if the file has the name of the key. */
  readonly mount: Mount | undefined;
}

/** How a ConfigMap is mounted. */
export interface Mounting {
  readonly filesOf: (key: string) => readonly MountedFile[];
  /** A volume that may be meant for this ConfigMap, but has another name for it. */
  readonly stray: Mount | undefined;
}

/** What the workloads among these objects mount. A volume that several share by an alias counts once. */
export function mountsOf(
  objects: readonly { readonly node: MapNode; readonly warn: Warn }[],
): readonly Mount[] {
  const seen = new Set<Node>();
  return objects.flatMap(({ node: object, warn }) => {
    const spec = valueAt(object, 'spec');
    const job = valueAt(valueAt(spec, 'jobTemplate'), 'spec');
    const pod = valueAt(valueAt(job ?? spec, 'template'), 'spec') ?? spec;
    const volumes = valueAt(pod, 'volumes');
    if (volumes === undefined || seen.has(volumes)) return [];
    seen.add(volumes);
    const namespace = textAt(valueAt(object, 'metadata'), 'namespace');
    warnOfSubPaths(pod, listOf(volumes), warn);
    return listOf(volumes)
      .flatMap(configMapsOf)
      .flatMap((source) => mountsIn(source, namespace, warn));
  });
}

/** The ConfigMaps that a volume is made of. */
function configMapsOf(volume: Node): readonly Node[] {
  const sources = listOf(valueAt(valueAt(volume, 'projected'), 'sources'));
  return [volume, ...sources].flatMap((one) => valueAt(one, 'configMap') ?? []);
}

/** Warns of ConfigMaps of the agent that kubelet never updates in the containers of a pod. */
function warnOfSubPaths(pod: Node | undefined, volumes: readonly Node[], warn: Warn): void {
  const own = volumes
    .filter((volume) => configMapsOf(volume).some((source) => isOfAgent(textAt(source, 'name'))))
    .map((volume) => textAt(volume, 'name'));
  for (const mount of listOf(valueAt(pod, 'containers')).flatMap((one) =>
    listOf(valueAt(one, 'volumeMounts')),
  )) {
    const subPath = valueAt(mount, 'subPath') ?? valueAt(mount, 'subPathExpr');
    if (subPath === undefined || !own.includes(textAt(mount, 'name'))) continue;
    const message = 'a file that is mounted with subPath never gets a change of its ConfigMap';
    warn(subPath, message, 'mount the whole volume at the config directory, without subPath');
  }
}

function mountsIn(source: Node, namespace: string | undefined, warn: Warn): readonly Mount[] {
  const name = textAt(source, 'name');
  const warnIn =
    (item?: Node): Mount['warn'] =>
    (of, ...warning) =>
      warn(valueAt(of === 'name' ? source : item, of) ?? source, ...warning);
  const items = listOf(valueAt(source, 'items'));
  if (items.length === 0) return [{ name, namespace, key: undefined, path: undefined, warn: warnIn() }];
  return items.map((item) => ({
    name,
    namespace,
    key: textAt(item, 'key') ?? '',
    path: textAt(item, 'path'),
    warn: warnIn(item),
  }));
}

function listOf(node: Node | undefined): readonly Node[] {
  return node?.kind === 'list' ? node.items : [];
}

/**
 * How a ConfigMap is mounted: as these workloads do it or, if none does, every key as a file of its name.
 *
 * @param names of all ConfigMaps
 */
export function mountingOf(
  configMap: MapNode,
  mounts: readonly Mount[],
  names: ReadonlySet<string | undefined>,
): Mounting {
  const metadata = valueAt(configMap, 'metadata');
  const [name, namespace] = [textAt(metadata, 'name'), textAt(metadata, 'namespace')];
  const own = mounts.filter(
    (mount) =>
      mount.name === name && (namespace === undefined || (mount.namespace ?? namespace) === namespace),
  );
  if (name === undefined || own.length === 0) {
    const stray = mounts.find((mount) => isOfAgent(mount.name) && !names.has(mount.name));
    return { filesOf: (key) => [{ name: key, mount: undefined }], stray };
  }
  const filesOf = (key: string) => {
    const files = own
      .filter((mount) => mount.key === undefined || mount.key === key)
      .map((mount) =>
        mount.key === undefined ? { name: key, mount: undefined } : { name: mount.path ?? '', mount },
      );
    return [...new Map(files.map((file) => [file.name, file])).values()];
  };
  return { filesOf, stray: undefined };
}
