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

/**
 * What is read of the API server.
 *
 * @param configMaps the names of other ConfigMaps with config files
 */
export function sourcesOf(
  api: Pick<Api, 'request' | 'watch'>,
  tellers: readonly Teller[],
  namespace: string,
  configMaps: readonly string[],
) {
  const whole = (name: string) =>
    new Collection<KubeObject>(api, { ...configMap(namespace, name), keep: (object) => object });
  const claims = tellers.map((teller) => new Collection(api, teller));
  const [own, others] = [whole(NAME), configMaps.map(whole)];
  const all: readonly Collection<unknown>[] = [...claims, own, ...others];
  return {
    list: () => Promise.all(all.map((one) => one.list())),
    follow: () => Promise.all(all.map((one) => one.follow())),
    objects: (): Objects => ({
      claims: claims.flatMap(({ objects }) => objects.flat()),
      own: own.objects[0],
      others: others.flatMap(({ objects }) => objects),
      failures: [...new Set(all.flatMap(({ failure }) => failure ?? []))],
    }),
  };
}

function configMap(namespace: string, name: string) {
  return { path: `/api/v1/namespaces/${namespace}/configmaps`, name };
}
