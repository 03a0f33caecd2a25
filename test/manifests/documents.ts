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
  readonly volumes: readonly Volume[];
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly resources?: unknown;
}

interface Volume {
  readonly name: string;
  readonly projected?: { readonly defaultMode?: number; readonly sources: readonly ProjectedSource[] };
}

interface ProjectedSource {
  readonly configMap?: {
    readonly name: string;
    readonly optional?: boolean;
    readonly items: readonly { readonly key: string; readonly path: string; readonly mode?: number }[];
  };
}

interface PodMonitor {
  readonly kind: 'PodMonitor';
  readonly metadata: Metadata;
  readonly spec: {
    readonly selector: {
      readonly matchLabels?: Readonly<Record<string, string>>;
      readonly matchExpressions: readonly { readonly key: string; readonly values: readonly string[] }[];
    };
    readonly podMetricsEndpoints: readonly { readonly port: string }[];
  };
}

interface PrometheusRule {
  readonly kind: 'PrometheusRule';
  readonly metadata: Metadata;
}

interface ServiceAccount {
  readonly kind: 'ServiceAccount';
  readonly metadata: Metadata;
  readonly automountServiceAccountToken?: boolean;
}

interface ClusterRole {
  readonly kind: 'ClusterRole';
  readonly metadata: Metadata;
  readonly rules: readonly unknown[];
}

interface ClusterRoleBinding {
  readonly kind: 'ClusterRoleBinding';
  readonly metadata: Metadata;
  readonly roleRef: { readonly name: string };
  readonly subjects: readonly { readonly name: string; readonly namespace: string }[];
}

interface AdmissionPolicy {
  readonly kind: 'ValidatingAdmissionPolicy' | 'ValidatingAdmissionPolicyBinding';
  readonly metadata: Metadata;
}

/** Of node-readiness-controller. */
interface NodeReadinessRule {
  readonly kind: 'NodeReadinessRule';
  readonly metadata: Metadata;
  readonly spec: {
    readonly enforcementMode: string;
    readonly conditions: readonly { readonly type: string; readonly requiredStatus: string }[];
    readonly taint: { readonly key: string; readonly value: string; readonly effect: string };
    readonly nodeSelector: {
      readonly matchLabels: Readonly<Record<string, string>>;
      readonly matchExpressions: readonly unknown[];
    };
  };
}

export type KubernetesObject =
  | AdmissionPolicy
  | ClusterRole
  | ClusterRoleBinding
  | ConfigMap
  | DaemonSet
  | NodeReadinessRule
  | PodMonitor
  | PrometheusRule
  | ServiceAccount;

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
