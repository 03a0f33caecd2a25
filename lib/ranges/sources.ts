import type { Api } from './api.ts';
import { type Claim, claimsIn, type KubeObject, nodeClaims, poolClaims } from './claims.ts';
import { Collection, type Listing } from './collection.ts';
import { NAME, type Objects } from './plan.ts';

type Teller = Listing<readonly Claim[]>;

const kubeadm: Teller = {
  ...configMap('kube-system', 'kubeadm-config'),
  keep: claimsIn('ClusterConfiguration', ['networking', 'podSubnet']),
};
const flannel: Teller = {
  ...configMap('kube-flannel', 'kube-flannel-cfg'),
  keep: claimsIn('net-conf.json', ['Network'], ['IPv6Network']),
};
const calico: Teller = { path: '/apis/crd.projectcalico.org/v1/ippools', keep: poolClaims };

/** What can tell ranges. */
export const TELLERS = { kubeadm, flannel, calico, nodes: { path: '/api/v1/nodes', keep: nodeClaims } };

/** What is read of the API server. */
export class Sources {
  readonly #claims: readonly Collection<readonly Claim[]>[];
  readonly #own: Collection<KubeObject>;
  readonly #others: readonly Collection<KubeObject>[];

  /** @param configMaps the names of other ConfigMaps with config files */
  constructor(
    api: Pick<Api, 'request' | 'watch'>,
    tellers: readonly Teller[],
    namespace: string,
    configMaps: readonly string[],
  ) {
    const whole = (name: string) =>
      new Collection(api, { ...configMap(namespace, name), keep: (object) => object });
    this.#claims = tellers.map((teller) => new Collection(api, teller));
    this.#own = whole(NAME);
    this.#others = configMaps.map(whole);
  }

  get #all(): readonly Collection<unknown>[] {
    return [...this.#claims, this.#own, ...this.#others];
  }

  async list(): Promise<void> {
    await Promise.all(this.#all.map((one) => one.list()));
  }

  async follow(onChange: () => void): Promise<void> {
    await Promise.all(this.#all.map((one) => one.follow(onChange)));
  }

  get objects(): Objects {
    return {
      claims: this.#claims.flatMap(({ objects }) => objects.flat()),
      own: this.#own.objects[0],
      others: this.#others.flatMap(({ objects }) => objects),
      failures: this.#all.flatMap(({ failure }) => failure ?? []),
    };
  }
}

function configMap(namespace: string, name: string) {
  return { path: `/api/v1/namespaces/${namespace}/configmaps`, name };
}
