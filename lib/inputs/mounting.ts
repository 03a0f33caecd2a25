import type { ConfigFile } from '../config/config-file.ts';
import { valueAt } from '../config/yaml.ts';
import { quote } from '../text/escape.ts';
import { type Item, type KubernetesObject, type Source, textAt, type Workload } from './workload.ts';

/** A file that a key of a ConfigMap becomes. */
export interface MountedFile {
  /** A path, if it is mounted into a folder. */
  readonly name: string;
  /** What of a volume says so; undefined if the file has the name of the key. */
  readonly item: Item | undefined;
  /** Gives it to those that mount it. */
  readonly deliver: (configFile: ConfigFile) => void;
}

/** How a ConfigMap or a Secret is mounted. */
export interface Mounting {
  /** The volumes that take it; none if no workload does. */
  readonly sources: readonly Source[];
  readonly filesOf: (key: string) => readonly MountedFile[];
  /** Whether there are agents, and none of them mounts it. */
  readonly isUnread: boolean;
  /** Says that agents do not mount it, unless another workload does. */
  readonly reportUnread: () => void;
}

/** How ConfigMaps and Secrets are mounted by agents or, if there is none among the workloads, by any of them. */
export function mountings(workloads: readonly Workload[]): (object: KubernetesObject) => Mounting {
  const agents = workloads.filter(({ isAgent }) => isAgent);
  const byName = Map.groupBy(
    workloads.flatMap((workload) => workload.sources.map((source) => ({ workload, source }))),
    ({ source }) => source.name,
  );
  return (object) => {
    const name = textAt(valueAt(object.node, 'metadata'), 'name');
    const mounts = (byName.get(name) ?? []).filter(({ source }) => isMountedBy(object, source));
    const own = mounts.filter(({ workload }) => workload.isAgent || agents.length === 0);
    const isUnread = own.length === 0 && agents.length > 0;
    return {
      sources: own.map(({ source }) => source),
      filesOf(key) {
        if (own.length === 0) return isUnread ? [] : [{ name: key, item: undefined, deliver: () => {} }];
        const files = own.flatMap(({ workload, source }) =>
          filesOfSource(source, key).map((file) => ({ ...file, workload })),
        );
        return [...Map.groupBy(files, (file) => file.name).values()].map((same) => ({
          ...(same[0] as (typeof same)[0]),
          deliver(configFile) {
            for (const { configFiles } of new Set(same.map((one) => one.workload)))
              configFiles.push(configFile);
          },
        }));
      },
      isUnread,
      reportUnread() {
        if (mounts.length === 0) reportUnread(object, agents);
      },
    };
  };
}

function filesOfSource({ items }: Source, key: string): readonly Pick<MountedFile, 'name' | 'item'>[] {
  if (items === undefined) return [{ name: key, item: undefined }];
  return items.filter((item) => item.key === key).map((item) => ({ name: item.path, item }));
}

/** Kind, namespace and name must all be those of the volume. */
function reportUnread({ kind, node, report }: KubernetesObject, agents: readonly Workload[]): void {
  const metadata = valueAt(node, 'metadata');
  const namespace = textAt(metadata, 'namespace');
  const where = namespace === undefined ? '' : ` in the namespace ${quote(namespace)}`;
  const message = `agents read nothing of this ${kind}${where}: no volume at the config directory of ${agents[0]?.name} takes it`;
  const remedy =
    'add it to the sources of that volume, with the same kind, namespace and name in both; or remove it';
  report('not-delivered', valueAt(metadata, 'name') ?? node, message, remedy);
}

function isMountedBy({ node, kind }: KubernetesObject, source: Source): boolean {
  const metadata = valueAt(node, 'metadata');
  const namespace = textAt(metadata, 'namespace');
  return source.kind === kind && (namespace === undefined || (source.namespace ?? namespace) === namespace);
}
