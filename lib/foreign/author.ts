/** Who writes a rule, as far as its names and comments tell. */
export interface Author {
  /** The value of a flag and of a label; `unknown` as the name. */
  readonly id: string;
  /** `unknown` if names and comments do not show it. */
  readonly name: string;
  /** One sentence: what to do about a rule of this author. */
  readonly remedy: string;
}

interface Signature extends Author {
  /** Matches the texts of its rules, or the base chain. */
  readonly pattern: RegExp;
}

/** The id of any other agent of this kind. */
export const OTHER_AGENT = 'ip-masq-agent';

/** The order matters: comments in the chains of other agents may match more general signatures. */
const SIGNATURES: readonly Signature[] = [
  {
    id: 'kube-proxy',
    name: 'kube-proxy',
    pattern: /\bKUBE-POSTROUTING\b|^nftables \S+ kube-proxy /m,
    remedy: 'do not change it: Services need it; find out what marks these packets',
  },
  {
    id: 'portmap',
    name: 'CNI portmap',
    pattern: /\bCNI-HOSTPORT-MASQ\b|^nftables \S+ cni_hostport /m,
    remedy: 'remove "snat" from the portmap plugin in the CNI configuration, or keep it: host ports need it',
  },
  {
    id: 'kubenet',
    name: 'kubelet (kubenet)',
    pattern: /\bkubenet: /,
    remedy: 'start kubelet with --non-masquerade-cidr=0.0.0.0/0',
  },
  {
    id: 'kindnet',
    name: 'kindnet',
    pattern: /\bKIND-MASQ-AGENT\b|^nftables \S+ kindnet/m,
    remedy:
      'start kindnetd with --masquerading=false, or list the destinations in its --no-masquerade-cidr; the kindnetd of kind has no such flag: set disableDefaultCNI there and install another CNI plugin',
  },
  {
    id: 'ip-masq',
    name: 'a cloud node setup (IP-MASQ)',
    pattern: /-j IP-MASQ$|-A IP-MASQ /m,
    remedy:
      'turn off the default SNAT of the cluster (GKE: --disable-default-snat), or delete the jump to IP-MASQ',
  },
  {
    id: OTHER_AGENT,
    name: 'another ip-masq-agent',
    pattern: /\bip-masq(?:-agent)?\S*: |\bIP-MASQ-AGENT\S*/,
    remedy: 'remove the DaemonSet of that agent, then delete the jump to its chain from POSTROUTING',
  },
  {
    id: 'flannel',
    name: 'flannel',
    pattern: /\bflanneld masq\b|\bFLANNEL-POSTRTG\b|^nftables \S+ flannel-ipv[46] /m,
    remedy: 'start flanneld with --ip-masq=false',
  },
  {
    id: 'aws-cni',
    name: 'AWS VPC CNI',
    pattern: /\bAWS-SNAT-CHAIN-\d/,
    remedy:
      'set AWS_VPC_K8S_CNI_EXTERNALSNAT=true in the DaemonSet aws-node, or list the destinations in AWS_VPC_K8S_CNI_EXCLUDE_SNAT_CIDRS',
  },
  {
    id: 'calico',
    name: 'Calico',
    pattern: /\bcali-(?:POSTROUTING|nat-outgoing)\b|\bcali:/,
    remedy: 'set natOutgoing: false in the IPPool of the pods',
  },
  {
    id: 'cilium',
    name: 'Cilium',
    pattern: /\bCILIUM_POST_nat\b|\bcilium masquerade\b/,
    remedy: 'set enable-ipv4-masquerade and enable-ipv6-masquerade to false in cilium-config',
  },
  {
    id: 'cni',
    name: 'a CNI plugin',
    pattern: /\bCNI-[0-9a-f]{24}\b|^nftables \S+ cni_plugins_masquerade /m,
    remedy: 'set "ipMasq": false in the CNI configuration in /etc/cni/net.d, and restart the pods',
  },
  {
    id: 'libvirt',
    name: 'libvirt',
    pattern: /\bLIBVIRT_PRT\b|^nftables \S+ libvirt_network /m,
    remedy: 'change the libvirt network to <forward mode="route"/>, or stop it: virsh net-destroy NETWORK',
  },
  {
    id: 'docker',
    name: 'Docker',
    pattern: /\bdocker0\b|\bbr-[0-9a-f]{12}\b|^nftables \S+ docker-bridges /m,
    remedy:
      'start dockerd with --ip-masq=false ("ip-masq": false in daemon.json); for other networks than the default one set com.docker.network.bridge.enable_ip_masquerade=false',
  },
  {
    id: 'podman',
    name: 'podman',
    pattern: /\bNETAVARK-|^nftables \S+ netavark /m,
    remedy:
      'give the podman network the option mode=unmanaged, with which podman writes no rules, or stop its containers',
  },
  {
    id: 'lxd',
    name: 'LXD or Incus',
    pattern: /\bgenerated for (?:LXD|Incus) network\b|^nftables \S+ (?:lxd|incus) /m,
    remedy:
      'set ipv4.nat and ipv6.nat of that network to false: lxc (incus) network set NETWORK ipv4.nat=false',
  },
  {
    id: 'firewalld',
    name: 'firewalld',
    pattern: /\bPOSTROUTING_(?:ZONES|POLICIES|direct)|^nftables \S+ firewalld /m,
    remedy:
      'take masquerading out of the zone of that interface (firewall-cmd --permanent --zone=ZONE --remove-masquerade), then firewall-cmd --reload',
  },
  {
    id: 'ufw',
    name: 'ufw',
    pattern: /\bufw6?-/,
    remedy:
      'remove the rule from the section *nat of /etc/ufw/before.rules and before6.rules, then run ufw reload',
  },
];

const UNKNOWN: Author = {
  id: 'unknown',
  name: 'unknown',
  remedy:
    'find out which program keeps this rule and let it leave these destinations alone; if none does, delete it',
};

export const AUTHOR_IDS: readonly string[] = [...SIGNATURES, UNKNOWN].map(({ id }) => id);

/**
 * Who writes a rule.
 *
 * @param chainText the base chain, as `BaseChain.chainText`
 * @param path the texts of the rules that lead to it, and of the rule itself
 */
export function authorOf(chainText: string, path: readonly string[]): Author {
  const evidence = [`${chainText} `, ...path].join('\n');
  return SIGNATURES.find(({ pattern }) => pattern.test(evidence)) ?? UNKNOWN;
}
