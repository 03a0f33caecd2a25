import { type MapNode, type Node, valueAt } from '../config/yaml.ts';
import { textAt } from './config-map.ts';

/** A file that a volume of a workload makes of a key of a ConfigMap. */
interface Mount {
  readonly name: string | undefined;
  /** Of the workload; undefined if the manifest does not say it. */
  readonly namespace: string | undefined;
  /** Undefined for all keys, each a file of its name. */
  readonly key: string | undefined;
  readonly path: string | undefined;
}

/** The names of the files that a key of a ConfigMap becomes where it is mounted; paths, if it is mounted into a folder. */
export type MountedNames = (key: string) => readonly string[];

/** What the workloads among these objects mount. A volume that several share by an alias counts once. */
export function mountsOf(objects: readonly MapNode[]): readonly Mount[] {
  const seen = new Set<Node>();
  return objects.flatMap((object) => {
    const spec = valueAt(object, 'spec');
    const job = valueAt(valueAt(spec, 'jobTemplate'), 'spec');
    const pod = valueAt(valueAt(job ?? spec, 'template'), 'spec') ?? spec;
    const volumes = valueAt(pod, 'volumes');
    if (volumes === undefined || seen.has(volumes)) return [];
    seen.add(volumes);
    const namespace = textAt(valueAt(object, 'metadata'), 'namespace');
    return listOf(volumes)
      .flatMap((volume) => [
        valueAt(volume, 'configMap'),
        ...listOf(valueAt(valueAt(volume, 'projected'), 'sources')).map((one) => valueAt(one, 'configMap')),
      ])
      .flatMap((source) => (source === undefined ? [] : mountsIn(source, namespace)));
  });
}

function mountsIn(source: Node, namespace: string | undefined): readonly Mount[] {
  const name = textAt(source, 'name');
  const items = listOf(valueAt(source, 'items'));
  if (items.length === 0) return [{ name, namespace, key: undefined, path: undefined }];
  return items.map((item) => ({
    name,
    namespace,
    key: textAt(item, 'key') ?? '',
    path: textAt(item, 'path'),
  }));
}

function listOf(node: Node | undefined): readonly Node[] {
  return node?.kind === 'list' ? node.items : [];
}

/** How the keys of a ConfigMap are mounted: as these workloads do it or, if none does, every key as a file of its name. */
export function mountedNames(configMap: MapNode, mounts: readonly Mount[]): MountedNames {
  const metadata = valueAt(configMap, 'metadata');
  const [name, namespace] = [textAt(metadata, 'name'), textAt(metadata, 'namespace')];
  const own = mounts.filter(
    (mount) =>
      mount.name === name && (namespace === undefined || (mount.namespace ?? namespace) === namespace),
  );
  if (name === undefined || own.length === 0) return (key) => [key];
  const files = new Map<string | undefined, Set<string>>();
  for (const { key, path = '' } of own) files.set(key, (files.get(key) ?? new Set()).add(path));
  return (key) => [...new Set([...(files.has(undefined) ? [key] : []), ...(files.get(key) ?? [])])];
}
