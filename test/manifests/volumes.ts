import { type DaemonSet, type KubernetesObject, ofKind, type Volume } from './documents.ts';

/** ConfigMaps that people write come with their DaemonSet: if one is deleted, kubelet keeps its file. */
function isRequired(name: string): boolean {
  return ['ip-masq-operator', 'ip-masq-dual-stack'].includes(name.replace(/-canary$/, ''));
}

/** ConfigMaps that a controller of the cloud keeps: no manifest may write over them. */
export function isOfOthers(name: string): boolean {
  return ['ip-masq-cloud', 'azure-ip-masq-agent-config-reconciled'].includes(name);
}

/** What is wrong with how the ConfigMaps become files in /etc/config. */
export function volumeProblems(
  daemonSet: DaemonSet,
  objects: readonly KubernetesObject[],
): readonly string[] {
  const { volumes, containers, initContainers = [] } = daemonSet.spec.template.spec;
  const mounted = new Set(
    [...initContainers, ...containers].flatMap(({ volumeMounts }) => volumeMounts.map(({ name }) => name)),
  );
  const unknown = [...mounted].filter((name) => !volumes.some((volume) => volume.name === name));
  const unused = volumes.filter(({ name }) => !mounted.has(name));
  const configMaps = volumes.flatMap(projectedConfigMaps);
  const paths = configMaps.flatMap(({ items }) => items.map(({ path }) => path));
  return [
    ...unknown.map((name) => `no volume ${name}`),
    ...unused.map(({ name }) => `nobody mounts volume ${name}`),
    ...volumes.flatMap(modeProblems),
    ...configMaps.flatMap((source) => sourceProblems(source, objects)),
    ...paths.filter((path) => !path.startsWith('ip-masq-')).map((path) => `the agent reads no file ${path}`),
    ...(new Set(paths).size === paths.length ? [] : ['two items have the same path']),
    ...unmounted(
      objects,
      configMaps.map(({ name }) => name),
    ),
  ];
}

type Projected = NonNullable<NonNullable<Volume['projected']>['sources'][number]['configMap']>;

function projectedConfigMaps({ projected }: Volume): readonly Projected[] {
  return (projected?.sources ?? []).flatMap(({ configMap }) => (configMap == null ? [] : [configMap]));
}

/** A mode is a number: what is octal in one notation is decimal in another. All may read, nobody may do more. */
function modeProblems({ name, projected }: Volume): readonly string[] {
  if (projected === undefined) return [];
  const items = projected.sources.flatMap(({ configMap }) => configMap?.items ?? []);
  return [projected.defaultMode, ...items.map(({ mode }) => mode)]
    .filter((mode) => mode !== undefined && mode !== 0o444)
    .map((mode = 0) => `volume ${name}: the mode ${mode} is ${mode.toString(8)} in octal, not 444`);
}

function sourceProblems(
  { name, optional, items }: Projected,
  objects: readonly KubernetesObject[],
): readonly string[] {
  const wrong =
    optional === !isRequired(name) ? [] : [`ConfigMap ${name} is ${optional ? '' : 'not '}optional`];
  const configMap = ofKind('ConfigMap', objects).find(({ metadata }) => metadata.name === name);
  if (configMap === undefined) return isOfOthers(name) ? wrong : [`there is no ConfigMap ${name}`];
  const keys = Object.keys(configMap.data ?? {});
  return [
    ...wrong,
    ...items.filter(({ key }) => !keys.includes(key)).map(({ key }) => `ConfigMap ${name} has no key ${key}`),
    ...keys
      .filter((key) => !items.some((item) => item.key === key))
      .map((key) => `key ${key} of ConfigMap ${name} is not mounted`),
  ];
}

function unmounted(objects: readonly KubernetesObject[], names: readonly string[]): readonly string[] {
  return ofKind('ConfigMap', objects)
    .filter(({ metadata }) => metadata.labels?.['grafana_dashboard'] === undefined)
    .map(({ metadata }) => metadata.name)
    .filter((name) => !names.includes(name))
    .map((name) => `ConfigMap ${name} is not mounted`);
}
