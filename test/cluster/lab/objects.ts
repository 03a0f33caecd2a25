/** The parts of Kubernetes' objects that the scenarios read. */

export interface List<Item> {
  readonly items: readonly Item[];
}

interface Metadata {
  readonly name: string;
  readonly uid: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export interface Node {
  readonly metadata: Metadata;
  readonly spec: {
    readonly unschedulable?: boolean;
  };
  readonly status: {
    readonly addresses: readonly { readonly type: string; readonly address: string }[];
    readonly conditions: readonly { readonly type: string; readonly status: string }[];
    readonly nodeInfo: {
      readonly kubeletVersion: string;
      readonly kernelVersion: string;
      readonly containerRuntimeVersion: string;
      readonly operatingSystem: string;
    };
  };
}

export interface Pod {
  readonly metadata: Metadata;
  readonly spec: { readonly nodeName?: string };
  readonly status: {
    readonly phase: string;
    readonly podIPs?: readonly { readonly ip: string }[];
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly ContainerStatus[];
  };
}

export interface ContainerStatus {
  readonly name: string;
  readonly containerID?: string;
  readonly ready: boolean;
  readonly restartCount: number;
  readonly state: ContainerState;
  readonly lastState: ContainerState;
}

/** Exactly one of them is there, or none. */
interface ContainerState {
  readonly waiting?: { readonly reason: string; readonly message?: string };
  readonly running?: { readonly startedAt: string };
  readonly terminated?: { readonly exitCode: number; readonly reason: string; readonly message?: string };
}

export interface KubeEvent {
  readonly involvedObject: { readonly kind: string; readonly name: string };
  readonly reason: string;
  readonly message: string;
}

/** A condition of a pod or of a node is true. */
export function isTrue(
  conditions: readonly { readonly type: string; readonly status: string }[] | undefined,
  type: string,
): boolean {
  return conditions?.some((condition) => condition.type === type && condition.status === 'True') ?? false;
}
