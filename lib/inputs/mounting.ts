import type { ConfigFile } from '../config/config-file.ts';
import { type Node, valueAt } from '../config/yaml.ts';
import { quote } from '../text/escape.ts';
import { isOfAgent, type KubernetesObject, type Source, textAt, type Workload } from './workload.ts';

/** A file that a key of a ConfigMap becomes. */
interface MountedFile {
  /** A path, if it is mounted into a folder. */
  readonly name: string;
  /** Where a volume says so; undefined if the file has the name of the key. */
  readonly saidAt: { readonly node: Node; readonly object: KubernetesObject } | undefined;
  /** Gives it to those that mount it. */
  readonly deliver: (configFile: ConfigFile) => void;
}

/** How a ConfigMap is mounted. */
export interface Mounting {
  /** The volumes that take it; none if no workload does. */
  readonly sources: readonly Source[];
  readonly filesOf: (key: string) => readonly MountedFile[];
  /** Whether agents read none of it, because only other workloads mount it, or none. */
  readonly isUnread: boolean;
  /** Says why nothing of it is read if it is for the agent: if agents do not mount it, or if a volume has another name for it. */
  readonly reportUnread: () => boolean;
}

/** How ConfigMaps and Secrets are mounted by agents or, if there is none among the workloads, by any of them. */
export function mountings(
  workloads: readonly Workload[],
  objects: readonly KubernetesObject[],
): (object: KubernetesObject) => Mounting {
  const agents = workloads.filter(({ isAgent }) => isAgent);
  const mounters = agents.length > 0 ? agents : workloads;
  const byName = Map.groupBy(
    mounters.flatMap((workload) => workload.sources.map((source) => ({ workload, source }))),
    ({ source }) => source.name,
  );
  const byOthers = Map.groupBy(
    workloads.flatMap(({ sources }) => sources),
    ({ name }) => name,
  );
  const names = new Set(objects.map(({ node }) => textAt(valueAt(node, 'metadata'), 'name')));
  const strays = mounters
    .flatMap(({ sources }) => sources)
    .filter(({ kind, name }) => kind === 'ConfigMap' && isOfAgent(name) && !names.has(name));
  return (object) => {
    const metadata = valueAt(object.node, 'metadata');
    const name = textAt(metadata, 'name');
    const namesakes = name === undefined ? [] : (byName.get(name) ?? []);
    const own = namesakes.filter(({ source }) => isMountedBy(object, source));
    const isUnread = own.length === 0 && agents.length > 0;
    return {
      sources: own.map(({ source }) => source),
      filesOf(key) {
        if (own.length === 0) return isUnread ? [] : [{ name: key, saidAt: undefined, deliver: () => {} }];
        const files = own.flatMap(({ workload, source }) =>
          filesOfSource(source, key).map((file) => ({ ...file, workload })),
        );
        return [...Map.groupBy(files, (file) => file.name).values()].flatMap((same) => {
          const [first] = same;
          const readers = new Set(same.map(({ workload }) => workload));
          return first === undefined
            ? []
            : {
                ...first,
                deliver: (one: ConfigFile) => {
                  for (const { configFiles } of readers) configFiles.push(one);
                },
              };
        });
      },
      isUnread,
      reportUnread() {
        if (own.length > 0) return false;
        if (isUnread && (byOthers.get(name) ?? []).some((source) => isMountedBy(object, source))) return true;
        const stray = namesakes.length === 0 ? strays[0] : undefined;
        if (stray !== undefined) reportStray(stray, name, isUnread);
        else if (isUnread)
          object.report(
            'not-delivered',
            valueAt(metadata, 'name') ?? object.node,
            ...whyUnread(object, namesakes[0], agents),
          );
        return isUnread || stray !== undefined;
      },
    };
  };
}

/** @param isUnread whether nothing of the ConfigMap is read, because there are agents that do not mount it */
function reportStray(stray: Source, name = '', isUnread: boolean): void {
  const message = `the volume mounts the ConfigMap ${quote(stray.name ?? '')}, but the one here is ${quote(name)}`;
  stray.object.report(
    isUnread ? 'not-delivered' : 'not-a-config-file',
    stray.node,
    message,
    'use one name in both',
  );
}

function whyUnread(
  { kind, node }: KubernetesObject,
  namesake: { readonly workload: Workload; readonly source: Source } | undefined,
  [agent]: readonly Workload[],
): readonly [message: string, remedy: string] {
  const workload = namesake?.workload ?? agent;
  const which = `nothing of this ${kind} is read: `;
  if (namesake === undefined)
    return [
      `${which}no volume at the config directory of ${workload?.name} has it`,
      `add it to the sources of that volume, or remove it`,
    ];
  if (namesake.source.kind !== kind)
    return [
      `${which}the volume of ${workload?.name} takes a ${namesake.source.kind} of that name`,
      `name a ${kind} there`,
    ];
  const namespace = textAt(valueAt(node, 'metadata'), 'namespace') ?? '';
  return [
    `${which}it is in the namespace ${quote(namespace)}, and a volume of ${workload?.name} has only what is in its own`,
    'put both into one namespace',
  ];
}

function isMountedBy({ node, kind }: KubernetesObject, source: Source): boolean {
  const metadata = valueAt(node, 'metadata');
  const namespace = textAt(metadata, 'namespace');
  return (
    source.kind === kind &&
    source.name === textAt(metadata, 'name') &&
    (namespace === undefined || (source.namespace ?? namespace) === namespace)
  );
}

function filesOfSource({ items, object }: Source, key: string): readonly Omit<MountedFile, 'deliver'>[] {
  if (items === undefined) return [{ name: key, saidAt: undefined }];
  return items
    .filter((item) => item.key === key)
    .map(({ path, node }) => ({ name: path, saidAt: { node: valueAt(node, 'path') ?? node, object } }));
}
