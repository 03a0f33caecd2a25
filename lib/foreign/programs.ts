/** A program that does NAT on nodes. */
export interface Program {
  readonly name: string;
  /** Whose configuration decides about it, as a sentence. */
  readonly setting: string;
}

/**
 * Programs of clusters by what names and comments of their tables, chains and rules hold. The order matters: comments in the chains of
 * agents such as this one match more general patterns. What is in a table called kube-proxy is named after the table: whoever
 * wrote it.
 */
const PROGRAMS: readonly (readonly [name: string, pattern: RegExp, setting: string])[] = [
  [
    'kube-proxy',
    /\bKUBE-POSTROUTING\b|^table \S+ kube-proxy$/m,
    'kube-proxy masquerades what it or another program has marked with 0x4000, which Services need.',
  ],
  [
    'CRI-O',
    /\bCRIO-|^table \S+ crio\b/m,
    'CRI-O masquerades pods that reach themselves through a host port, which these pods need.',
  ],
  [
    'CNI portmap',
    /\bCNI-HOSTPORT-|^table \S+ cni_hostport$/m,
    'The setting snat of the portmap plugin in /etc/cni/net.d decides; host ports need it.',
  ],
  [
    'kubelet (kubenet)',
    /\bkubenet: /,
    "kubelet's flag --non-masquerade-cidr decides: 0.0.0.0/0 turns it off.",
  ],
  [
    'kindnet',
    /\bKIND-MASQ-AGENT\b|^table \S+ kindnet/m,
    "kindnetd's flags --masquerading and --no-masquerade-cidr decide.",
  ],
  [
    'another ip-masq-agent',
    /\bip-masq-agent\S*: |\bIP-MASQ-AGENT/i,
    'The DaemonSet of the other agent decides; docs/migration.md says how to leave v1 and v2.',
  ],
  [
    'a cloud node setup (IP-MASQ)',
    /\bIP-MASQ\b|\bip-masq: /,
    "The cluster's default SNAT decides (GKE: --disable-default-snat); --masq-chain takes its chain over.",
  ],
  [
    'flannel',
    /\bflanneld masq\b|\bFLANNEL-POSTRTG\b|^table \S+ flannel-ipv/m,
    "flanneld's flag --ip-masq and ipMasq in delegate of cni-conf.json (ConfigMap kube-flannel-cfg) decide.",
  ],
  [
    'AWS VPC CNI',
    /\bAWS-SNAT-CHAIN|\bAWS, |\bCNI-E[46]-/,
    'AWS_VPC_K8S_CNI_EXTERNALSNAT and AWS_VPC_K8S_CNI_EXCLUDE_SNAT_CIDRS of the DaemonSet aws-node decide.',
  ],
  [
    'Azure CNS',
    /\bSWIFT\b/,
    'Azure CNS writes these rules from the options of the node pool (azure-ip-masq-agent-config of AKS).',
  ],
  [
    'kube-egress-gateway',
    /\bkube-egress-gateway|\bEGRESS-[0-9A-F]{4}/,
    'The StaticGatewayConfiguration of the pods decides; accept their ranges with --accept-masqueraded.',
  ],
  [
    'kube-vip',
    /\ba3ViZS12aXAK=kube-vip\b|^table \S+ kube_vip/m,
    'The annotations kube-vip.io/egress of the Service decide; accept the ranges of the pods with --accept-masqueraded.',
  ],
  ['Calico', /\bcali[-:]/, 'natOutgoing of the IPPool of the pods decides.'],
  [
    'Cilium',
    /\bCILIUM_|\bcilium/i,
    'enable-ipv4-masquerade, enable-ipv6-masquerade and enable-bpf-masquerade in cilium-config decide.',
  ],
  [
    'Docker',
    /\bDOCKER\b|\bdocker|\bbr-[0-9a-f]{12}\b/,
    "dockerd's setting ip-masq decides; containers on its own bridges need it.",
  ],
  [
    'firewalld',
    /\bPOSTROUTING_(?:ZONES|POLICIES|direct)|^table \S+ firewalld$/m,
    "masquerade of the link's zone decides.",
  ],
  ['Antrea', /\bANTREA-/, 'noSNAT in antrea-agent.conf decides.'],
  ['kube-router', /\bkube-router-|\bKUBE-ROUTER-/, "kube-router's flag --enable-pod-egress decides."],
  [
    'OVN-Kubernetes',
    /\bOVN-KUBE-|^table \S+ ovn-kubernetes$/m,
    'disable-snat-multiple-gws, EgressIP and EgressService of OVN-Kubernetes decide.',
  ],
  [
    'a CNI plugin',
    /\bCNI-[0-9a-f]{24}\b|^table \S+ cni_plugins_masquerade$/m,
    'ipMasq in the CNI configuration in /etc/cni/net.d decides; pods that run keep their rules.',
  ],
];

/**
 * The program that names and comments say; undefined if they say none.
 *
 * @param evidence lines: `table FAMILY NAME`, then names of chains and comments
 */
export function programOf(evidence: readonly string[]): Program | undefined {
  const text = evidence.join('\n');
  const found = PROGRAMS.find(([, pattern]) => pattern.test(text));
  return found && { name: found[0], setting: found[2] };
}
