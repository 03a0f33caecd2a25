/** Who writes a rule, as far as its names and comments tell. */
export interface Author {
  /** The value of a flag and of a label; `unknown` as the name. */
  readonly id: string;
  /** `unknown` if names and comments do not show it. */
  readonly name: string;
  /** One sentence: what to do about a masquerading rule of this author. */
  readonly remedy: string;
  /** What --accept-foreign takes for the rule: the id, or if the author is unknown, the table and chain. */
  readonly acceptAs: string;
}

/** The id of any other agent of this kind. */
export const OTHER_AGENT = 'ip-masq-agent';
/** The id of whoever names and comments do not show. */
export const UNKNOWN_ID = 'unknown';

/**
 * The names of authors by their ids, what matches the texts of their rules or the base chain, and what to do. The order matters:
 * comments in the chains of other agents may match more general patterns.
 */
const SIGNATURES: Readonly<Record<string, readonly [name: string, pattern: RegExp, remedy: string]>> = {
  'kube-proxy': [
    'kube-proxy',
    /\bKUBE-POSTROUTING\b|^nftables \S+ kube-proxy /m,
    'do not change it: Services need it; find out what marks these packets',
  ],
  portmap: [
    'CNI portmap',
    /\bCNI-HOSTPORT-MASQ\b|^nftables \S+ cni_hostport /m,
    'remove "snat" from the portmap plugin in the CNI configuration, or keep it: host ports need it',
  ],
  kubenet: ['kubelet (kubenet)', /\bkubenet: /, 'start kubelet with --non-masquerade-cidr=0.0.0.0/0'],
  kindnet: [
    'kindnet',
    /\bKIND-MASQ-AGENT\b|^nftables \S+ kindnet/m,
    'start kindnetd with --masquerading=false, or list the destinations in its --no-masquerade-cidr; the kindnetd of kind has no such flag: set disableDefaultCNI there and install another CNI plugin',
  ],
  [OTHER_AGENT]: [
    'another ip-masq-agent',
    /\bip-masq-agent\S*: |\bIP-MASQ-AGENT\S*/,
    'remove the DaemonSet of that agent if there is one, then its chain: ip-masq-agent cleanup --masq-chain=CHAIN',
  ],
  'ip-masq': [
    'a cloud node setup (IP-MASQ)',
    /-j IP-MASQ$|-A IP-MASQ |\bip-masq: /m,
    'start this agent with --masq-chain=CHAIN, which takes the chain over, or turn off the default SNAT of the cluster (GKE: --disable-default-snat)',
  ],
  flannel: [
    'flannel',
    /\bflanneld masq\b|\bFLANNEL-POSTRTG\b|^nftables \S+ flannel-ipv[46] /m,
    'set "ipMasq": false in delegate of cni-conf.json (ConfigMap kube-flannel-cfg), because flannel\'s CNI plugin masquerades otherwise, then start flanneld with --ip-masq=false; if it runs so, restart the node, or empty what is left: iptables (ip6tables) -t nat -F FLANNEL-POSTRTG, or nft flush chain ip flannel-ipv4 postrtg (for IPv6: ip6 flannel-ipv6)',
  ],
  'aws-cni': [
    'AWS VPC CNI',
    /\bAWS-SNAT-CHAIN-\d/,
    'set AWS_VPC_K8S_CNI_EXTERNALSNAT=true in the DaemonSet aws-node, or list the destinations in AWS_VPC_K8S_CNI_EXCLUDE_SNAT_CIDRS',
  ],
  calico: ['Calico', /\bcali[-:]/, 'set natOutgoing: false in the IPPool of the pods'],
  cilium: [
    'Cilium',
    /\bCILIUM_\w+|\bcilium masquerade\b/,
    'set enable-ipv4-masquerade and enable-ipv6-masquerade to false in cilium-config',
  ],
  cni: [
    'a CNI plugin',
    /\bCNI-[0-9a-f]{24}\b|^nftables \S+ cni_plugins_masquerade /m,
    'set "ipMasq": false in the CNI configuration in /etc/cni/net.d (for flannel in delegate of cni-conf.json, ConfigMap kube-flannel-cfg), then drain and restart the node, because pods that end then leave their rules',
  ],
  libvirt: [
    'libvirt',
    /\bLIBVIRT_PRT\b|^nftables \S+ libvirt_network /m,
    'accept it if the virtual machines of that network are not pods (--accept-foreign=libvirt): without it they reach nothing outside of the node; else change the network to <forward mode="route"/>',
  ],
  docker: [
    'Docker',
    /\bdocker0\b|\bbr-[0-9a-f]{12}\b|^nftables \S+ docker-bridges /m,
    "accept it if Docker's containers are not pods (--accept-foreign=docker): without it they reach nothing outside of the node; if pods are on its bridge, start dockerd with --ip-masq=false",
  ],
  podman: [
    'podman',
    /\bNETAVARK-|^nftables \S+ netavark /m,
    "accept it if podman's containers are not pods (--accept-foreign=podman): without it they reach nothing outside of the node; else give the network the option mode=unmanaged, with which podman writes no rules",
  ],
  lxd: [
    'LXD or Incus',
    /\bgenerated for (?:LXD|Incus) network\b|^nftables \S+ (?:lxd|incus) /m,
    'accept it if the instances of that network are not pods (--accept-foreign=lxd): without it they reach nothing outside of the node; else set its ipv4.nat and ipv6.nat to false: lxc (incus) network set NETWORK ipv4.nat=false',
  ],
  firewalld: [
    'firewalld',
    /\bPOSTROUTING_(?:ZONES|POLICIES|direct)|^nftables \S+ firewalld /m,
    'take masquerading out of the zone of that interface (firewall-cmd --permanent --zone=ZONE --remove-masquerade), then firewall-cmd --reload',
  ],
  ufw: [
    'ufw',
    /\bufw6?-/,
    'remove the rule from the section *nat of /etc/ufw/before.rules and before6.rules, then run ufw reload',
  ],
  tailscale: [
    'Tailscale',
    /\bts-postrouting\b/,
    'turn it off with tailscale set --snat-subnet-routes=false, or accept it: it masquerades what comes from the tailnet',
  ],
  antrea: [
    'Antrea',
    /\bANTREA-/,
    'set noSNAT: true in antrea-agent.conf (traffic modes noEncap and networkPolicyOnly), or accept it',
  ],
  'kube-router': ['kube-router', /\bkube-router-/, 'start kube-router with --enable-pod-egress=false'],
  weave: [
    'Weave Net',
    /-[Aj] WEAVE\b|\bweaver-no-masq/,
    'accept it, or use another network plugin: Weave Net has no setting that turns it off',
  ],
  'ovn-kubernetes': [
    'OVN-Kubernetes',
    /\bOVN-KUBE-|^nftables inet ovn-kubernetes /m,
    'do not change it: packets into the network of pods, and EgressIP and EgressService, need it; accept it',
  ],
  'kube-ovn': [
    'Kube-OVN',
    /\bOVN-(?:POSTROUTING|MASQUERADE|NAT-P)|\bovn[46]0/,
    'set natOutgoing: false in the Subnet of the pods',
  ],
  submariner: [
    'Submariner',
    /\bSUBMARINER-|\bSM-GN-/,
    'accept it: pods of other clusters are reached through it',
  ],
  'kube-vip': [
    'kube-vip',
    /\ba3ViZS12aXAK=kube-vip\b/,
    'remove the annotation kube-vip.io/egress from the Service of these pods, or list the destinations in kube-vip.io/egress-denied-networks; if it is meant, accept it',
  ],
  egressgateway: [
    'EgressGateway (spidernet-io)',
    /\bEGRESSGATEWAY-|\begw:/,
    'list in destSubnet of the EgressPolicy or EgressClusterPolicy of these pods only the destinations that it is for; if it is meant, accept it',
  ],
  istio: [
    'Istio (ambient mode)',
    /\bISTIO_POSTRT\b|\bistio-inpod-/,
    "do not change it: kubelet's probes of pods need it; accept it",
  ],
  netbird: [
    'NetBird',
    /\bnetbird\b/i,
    'turn off Masquerade of that network route in the management of NetBird',
  ],
  networkmanager: [
    'NetworkManager',
    /\bnm-sh(?:ared)?-/,
    'give that connection another method than shared: nmcli connection modify NAME ipv4.method manual',
  ],
  systemd: [
    'systemd-networkd',
    /^nftables \S+ io\.systemd\.nat /m,
    'remove IPMasquerade= from the .network file of that link, then run networkctl reload',
  ],
  [UNKNOWN_ID]: [
    'unknown',
    /(?:)/,
    'find out which program keeps this rule and let it leave these destinations alone; if none does, delete it; if it is meant, accept it (--accept-foreign=PLACE)',
  ],
};

export const AUTHOR_IDS: readonly string[] = Object.keys(SIGNATURES);

/**
 * Who writes a rule.
 *
 * @param chainText the base chain, as `BaseChain.chainText`
 * @param path the texts of the rules that lead to it, and of the rule itself
 */
export function authorOf(chainText: string, path: readonly string[]): Author {
  const evidence = [`${chainText} `, ...path].join('\n');
  const found = Object.entries(SIGNATURES).find(([, [, pattern]]) => pattern.test(evidence));
  const [id = UNKNOWN_ID, [name = '', , remedy = ''] = []] = found ?? [];
  const [, iptables, nft = ''] = /^(?:-A (\S+)|chain (.*?):)/.exec(path.at(-1) ?? '') ?? [];
  const place = `${chainText.split(' ').at(-2)}/${iptables ?? nft}`;
  return {
    id,
    name,
    remedy: remedy.replace('PLACE', () => place).replace('CHAIN', () => iptables ?? nft),
    acceptAs: id === UNKNOWN_ID ? place : id,
  };
}

/** Whether --accept-foreign takes the text: an id, a table and chain, or what the comments of rules begin with. */
export function isAcceptable(text: string): boolean {
  return AUTHOR_IDS.includes(text) || /^(?:[^/=\s]+\/[^/\s]+|comment=.+)$/.test(text);
}

/** Whether the operator accepts a rule: by its author or, if that is unknown, by its table and chain, or by its comment. */
export function isAccepted({ id, acceptAs }: Author, rule = '', accepted: readonly string[] = []): boolean {
  return accepted.some((text) => {
    const [, start] = /^comment=(.+)$/.exec(text) ?? [];
    if (start === undefined) return text === id || text === acceptAs;
    return rule.includes(`comment "${start}`) || rule.includes(`--comment ${start}`);
  });
}
