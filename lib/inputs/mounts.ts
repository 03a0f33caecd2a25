import { type MapNode, type Node, valueAt } from '../config/yaml.ts';
import { textAt } from './config-map.ts';

/** How a volume of a workload mounts a ConfigMap. */
interface Mount {
  readonly name: string | undefined;
  /** Of the workload; undefined if the manifest does not say it. */
  readonly namespace: string | undefined;
  /** The keys that it lists, each with the path of its file; undefined if every key is a file of its name. */
  readonly items: readonly Item[] | undefined;
}

interface Item {
  readonly key: string | undefined;
  readonly path: string | undefined;
}

/** The paths of the files that a key of a ConfigMap becomes. */
export type FilesOf = (key: string) => readonly string[];

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
      .flatMap((source) => (source === undefined ? [] : mountOf(source, namespace)));
  });
}

function mountOf(source: Node, namespace: string | undefined): Mount {
  const listed = listOf(valueAt(source, 'items'));
  const items = listed.map((item) => ({ key: textAt(item, 'key'), path: textAt(item, 'path') }));
  return { name: textAt(source, 'name'), namespace, items: items.length === 0 ? undefined : items };
}

function listOf(node: Node | undefined): readonly Node[] {
  return node?.kind === 'list' ? node.items : [];
}

/** The files of a ConfigMap: as these workloads mount it or, if none does, every key as a file of its name. */
export function filesOf(configMap: MapNode, mounts: readonly Mount[]): FilesOf {
  const metadata = valueAt(configMap, 'metadata');
  const [name, namespace] = [textAt(metadata, 'name'), textAt(metadata, 'namespace')];
  const own = mounts.filter(
    (mount) =>
      mount.name === name && (namespace === undefined || (mount.namespace ?? namespace) === namespace),
  );
  if (name === undefined || own.length === 0) return (key) => [key];
  const files = new Map<string, Set<string>>();
  for (const { key, path } of own.flatMap(({ items = [] }) => items))
    if (key !== undefined && path !== undefined) files.set(key, (files.get(key) ?? new Set()).add(path));
  const hasAll = own.some(({ items }) => items === undefined);
  return (key) => [...new Set([...(hasAll ? [key] : []), ...(files.get(key) ?? [])])];
}
