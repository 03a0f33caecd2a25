/** The parts of Kubernetes' objects that are looked at here; the schema has seen to it that they are of these types. */
export interface ConfigMap {
  readonly kind: 'ConfigMap';
  readonly metadata: Metadata;
  readonly data?: Readonly<Record<string, string>>;
}

interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export interface DaemonSet {
  readonly kind: 'DaemonSet';
  readonly metadata: Metadata;
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly template: { readonly metadata: Metadata; readonly spec: PodSpec };
  };
}

interface PodSpec {
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly affinity?: {
    readonly nodeAffinity: {
      readonly requiredDuringSchedulingIgnoredDuringExecution: {
        readonly nodeSelectorTerms: readonly { readonly matchExpressions: readonly unknown[] }[];
      };
    };
  };
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly resources?: unknown;
}

/** Of these only the metadata is looked at. */
type Other<Kind> = Kind extends string ? { readonly kind: Kind; readonly metadata: Metadata } : never;

/** Of node-readiness-controller. */
interface NodeReadinessRule {
  readonly kind: 'NodeReadinessRule';
  readonly metadata: Metadata;
  readonly spec: { readonly taint: { readonly key: string } };
}

export type KubernetesObject =
  | ConfigMap
  | DaemonSet
  | NodeReadinessRule
  | Other<'ClusterRole' | 'ClusterRoleBinding' | 'PodMonitor' | 'PrometheusRule' | 'ServiceAccount'>
  | Other<'ValidatingAdmissionPolicy' | 'ValidatingAdmissionPolicyBinding'>;

/** The objects of one kind. */
export function ofKind<Kind extends KubernetesObject['kind']>(
  kind: Kind,
  objects: readonly KubernetesObject[],
): readonly Extract<KubernetesObject, { readonly kind: Kind }>[] {
  return objects.filter(
    (object): object is Extract<KubernetesObject, { readonly kind: Kind }> => object.kind === kind,
  );
}

/** The one DaemonSet of an agent that there is. */
export function theDaemonSet(objects: readonly KubernetesObject[]): DaemonSet {
  const [daemonSet, ...others] = ofKind('DaemonSet', objects).filter(isAgent);
  if (daemonSet === undefined || others.length > 0) throw new Error('not one DaemonSet');
  return daemonSet;
}

/** The container of the one DaemonSet of an agent that there is, or the first of several. */
export function containerIn(objects: readonly KubernetesObject[]): Container {
  const [container] = theDaemonSet(objects).spec.template.spec.containers;
  if (container === undefined) throw new Error('no container');
  return container;
}

/** All containers, in the order in which they start. */
export function containersOf({ spec }: DaemonSet): readonly Container[] {
  return [...(spec.template.spec.initContainers ?? []), ...spec.template.spec.containers];
}

/** Whether its pods hold a program of ours. */
export function isAgent(daemonSet: DaemonSet): boolean {
  return containersOf(daemonSet).some(isOurs);
}

/** Whether a program of ours runs in it, and not one beside it. */
function isOurs({ image }: Container): boolean {
  return /(?:^|\/)ip-masq-agent(?:[:@]|$)/.test(image) && !image.startsWith('registry.k8s.io/');
}
