import { readFileSync } from 'node:fs';
import { load } from 'js-yaml';

/** What of the DaemonSet's pod tells how its container is run. */
export interface Pod {
  readonly hostNetwork?: boolean;
  readonly securityContext?: Fields;
  readonly containers: readonly Container[];
  readonly volumes?: readonly Volume[];
}

interface Container {
  readonly name: string;
  readonly args?: readonly string[];
  readonly resources?: { readonly limits?: Readonly<Record<string, string>> };
  readonly securityContext?: Fields;
  readonly terminationMessagePath?: string;
  readonly volumeMounts?: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly readOnly?: boolean;
  }[];
}

interface Volume {
  readonly name: string;
  readonly projected?: unknown;
  readonly hostPath?: { readonly path: string; readonly type?: string };
}

type Fields = Readonly<Record<string, unknown>>;

/** Where the lab keeps what kubelet, or the node, would have. */
export interface Paths {
  /** Of the directory of a projected volume. */
  readonly projected: string;
  /** Of the file that stands for one of the node, by the path on the node. */
  readonly host: Readonly<Record<string, string>>;
  /** Of the file that gets the termination message. */
  readonly terminationMessage: string;
}

const MANIFEST = new URL('../../examples/kubernetes/base/daemonset.yaml', import.meta.url);

/** The pod that the manifest in examples/ asks for. */
export function examplePod(): Pod {
  const manifest = load(readFileSync(MANIFEST, 'utf8')) as {
    readonly spec: { readonly template: { readonly spec: Pod } };
  };
  return manifest.spec.template.spec;
}

/** The only container of the pod. */
export function containerOf({ containers }: Pod): Container {
  const [container, another] = containers;
  if (container === undefined || another !== undefined) throw new Error('the pod has not one container');
  return container;
}

/**
 * The flags of `docker run` that give the container of the pod just what a kubelet would give it.
 *
 * @throws where the pod says anything about security or volumes that is not understood here.
 */
export function dockerFlags(pod: Pod, paths: Paths): readonly string[] {
  const container = containerOf(pod);
  const memory = container.resources?.limits?.['memory'];
  if (pod.hostNetwork !== true) throw new Error('the agent must share the network of the node');
  return [
    '--network=host',
    ...Object.entries(pod.securityContext ?? {}).flatMap(securityFlag),
    ...Object.entries(container.securityContext ?? {}).flatMap(securityFlag),
    // Without swap, as on a node; Docker gives as much again otherwise.
    ...(memory === undefined ? [] : [`--memory=${bytes(memory)}`, `--memory-swap=${bytes(memory)}`]),
    ...(container.volumeMounts ?? []).map(({ name, mountPath, readOnly = false }) => {
      const source = sourceOf(
        pod.volumes?.find((volume) => volume.name === name),
        paths,
      );
      return `--volume=${source}:${mountPath}${readOnly ? ':ro' : ''}`;
    }),
    `--volume=${paths.terminationMessage}:${container.terminationMessagePath ?? '/dev/termination-log'}`,
  ];
}

/** Docker's profile for seccomp is what RuntimeDefault means, and Docker's default. */
function securityFlag([field, value]: readonly [string, unknown]): readonly string[] {
  switch (`${field}=${JSON.stringify(value)}`) {
    case 'privileged=false':
    case 'seccompProfile={"type":"RuntimeDefault"}':
    case 'runAsNonRoot=false':
      return [];
    case 'allowPrivilegeEscalation=false':
      return ['--security-opt=no-new-privileges'];
    case 'readOnlyRootFilesystem=true':
      return ['--read-only'];
  }
  if (field === 'runAsUser') return [`--user=${value}`];
  // Docker's --user has both; the group of the image's user is this one.
  if (field === 'runAsGroup' && value === 0) return [];
  if (field === 'capabilities') return capabilityFlags(value as Readonly<Record<string, readonly string[]>>);
  throw new Error(`securityContext.${field}: ${JSON.stringify(value)} is not known to this test`);
}

function capabilityFlags({ drop = [], add = [], ...rest }: Readonly<Record<string, readonly string[]>>) {
  if (Object.keys(rest).length > 0) throw new Error(`capabilities: ${Object.keys(rest)} is not known`);
  return [...drop.map((name) => `--cap-drop=${name}`), ...add.map((name) => `--cap-add=${name}`)];
}

function sourceOf(volume: Volume | undefined, paths: Paths): string {
  if (volume?.projected !== undefined) return paths.projected;
  const path = volume?.hostPath?.path ?? '';
  const source = paths.host[path];
  if (source === undefined) throw new Error(`volume ${volume?.name}: the lab has nothing for it`);
  return source;
}

/** A Kubernetes quantity of memory; https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ */
function bytes(quantity: string): number {
  const [, digits, unit = ''] = /^(\d+)(Ki|Mi|Gi)?$/.exec(quantity) ?? [];
  if (digits === undefined) throw new Error(`${quantity} is no quantity of memory that this test knows`);
  return Number(digits) * { '': 1, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30 }[unit as '' | 'Ki' | 'Mi' | 'Gi'];
}
