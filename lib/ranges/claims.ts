import { MANIFEST_LIMITS } from '../config/limits.ts';
import { parseDocuments, valueAt } from '../config/yaml.ts';
import { errorMessage, SystemError } from '../text/error.ts';

/** The parts of an object of the API server that are read, as its schema has them. */
export interface KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly managedFields?: readonly { readonly manager?: string; readonly fieldsV1?: object }[];
  };
  /** Of a Node, or of an IPPool of Calico. */
  readonly spec?: { podCIDRs?: readonly string[]; cidr?: string; allowedUses?: readonly string[] };
  readonly status?: { readonly addresses?: readonly { readonly type: string; readonly address: string }[] };
  readonly data?: Readonly<Record<string, string>>;
}

/** A range of pods or nodes as somebody gives it; nothing in it is checked yet. */
export interface Claim {
  readonly text: string;
  /**
   * `static` and `first` are of the command line, and not bounded; `declared` is of who runs the cluster; `node` and `address` are of a
   * kubelet. `first` is RFC 1918, which tells no ranges of pods, and neither does an address.
   */
  readonly kind: 'static' | 'first' | 'declared' | 'node' | 'address';
  /** Who gives it: `Node a`, `IPPool default`. */
  readonly by: string;
  /** The Node that gives it, for an Event. */
  readonly node?: { readonly name: string; readonly uid: string };
  /** Whether its Node gives enough without it. */
  readonly isSurplus?: boolean;
}

/** The most addresses of a Node that count: a kubelet may register a thousand, which would make the list too long for all. */
export const MOST_ADDRESSES = 8;

/** What a Node gives: the ranges of its pods, and its internal addresses. */
export function nodeClaims({ metadata, spec, status }: KubeObject): readonly Claim[] {
  const about = { by: `Node ${metadata.name}`, node: { name: metadata.name, uid: metadata.uid ?? '' } };
  const internal = (status?.addresses ?? []).filter(({ type }) => type === 'InternalIP');
  return [
    ...(spec?.podCIDRs ?? []).map((text): Claim => ({ text, kind: 'node', ...about })),
    ...internal.map(({ address }, index): Claim => {
      const text = `${address}/${address.includes(':') ? 128 : 32}`;
      return { text, kind: 'address', ...about, isSurplus: index >= MOST_ADDRESSES };
    }),
  ];
}

/** The range of an IPPool of Calico, also of one that is disabled: pods may still have its addresses. None if it is not for pods. */
export function poolClaims({ metadata, spec = {} }: KubeObject): readonly Claim[] {
  const { allowedUses: uses = [], cidr } = spec;
  if (uses.length > 0 && !uses.includes('Workload') && !uses.includes('Tunnel')) return [];
  return [{ text: String(cidr), kind: 'declared', by: `IPPool ${metadata.name}` }];
}

/**
 * Reads the ranges at these paths of the YAML or JSON in a key of a ConfigMap, each one range or several with commas between.
 *
 * @throws {SystemError} if it is neither YAML nor JSON
 */
export function claimsIn(key: string, ...paths: readonly (readonly string[])[]) {
  return ({ metadata, data = {} }: KubeObject): readonly Claim[] => {
    const by = `ConfigMap ${metadata.namespace}/${metadata.name}`;
    try {
      const [document] = parseDocuments(data[key] ?? '', MANIFEST_LIMITS);
      const values = paths.map((path) => path.reduce((node, name) => valueAt(node, name), document));
      return values
        .flatMap((value) => (value?.kind === 'scalar' ? String(value.value ?? '').split(',') : []))
        .flatMap((text) => (text.trim() === '' ? [] : { text: text.trim(), kind: 'declared', by }));
    } catch (error) {
      throw new SystemError(`cannot read ${key} of ${by}: ${errorMessage(error)}; correct it`);
    }
  };
}
