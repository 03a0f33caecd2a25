/** The links and routes of a node, as programs write them, and what of the routes leads to pods. */
export interface PodNetwork {
  readonly name: string;
  /** Name, kind, and perhaps the bridge that it is a port of. The other end of a `veth` is in another network namespace. */
  readonly links: readonly string[];
  /** Addresses of the node with their links. */
  readonly addresses?: readonly string[];
  /** As ip-route(8) takes them; the family of each follows from its destination. */
  readonly routes: readonly string[];
  /** As they are told. */
  readonly pods: readonly string[];
}

/** The node's own interface with its network. Without kind of its own it is hardware. */
const ETH0 = {
  links: ['eth0 dummy'],
  routes: [
    '192.168.77.0/24 dev eth0 proto kernel scope link',
    'fd77::/64 dev eth0 proto kernel metric 256',
    'default via 192.168.77.254 dev eth0',
    'default via fd77::fe dev eth0 metric 1024',
  ],
} as const;

const BRIDGE = {
  links: ['cni0 bridge', 'veth11111111 veth cni0', 'veth22222222 veth cni0'],
  routes: [
    '10.244.1.0/24 dev cni0 proto kernel scope link',
    'fd00:244:0:1::/64 dev cni0 proto kernel metric 256',
  ],
  pods: ['10.244.1.0/24 dev cni0', 'fd00:244:0:1::/64 dev cni0'],
} as const;

/** Calico's own pods. The blackhole keeps packets to addresses that no pod has from going round. */
const CALI = {
  links: ['cali0123456789a veth', 'calib0123456789 veth'],
  routes: [
    'blackhole 10.244.66.64/26 proto bird',
    '10.244.66.65 dev cali0123456789a scope link',
    '10.244.66.66 dev calib0123456789 scope link',
    'fd00:244:0:66::1 dev cali0123456789a metric 1024',
  ],
  pods: [
    '10.244.66.65/32 dev cali0123456789a',
    '10.244.66.66/32 dev calib0123456789',
    'fd00:244:0:66::1/128 dev cali0123456789a',
  ],
} as const;

/** Networks of pods. */
export const POD_NETWORKS: readonly PodNetwork[] = [
  node('the bridge plugin', BRIDGE),
  node('flannel (vxlan)', {
    links: [...BRIDGE.links, 'flannel.1 vxlan', 'flannel-v6.1 vxlan'],
    routes: [
      ...BRIDGE.routes,
      '10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink',
      '169.254.0.0/16 dev flannel.1 metric 1007',
      'fe80::/48 dev flannel-v6.1 metric 256',
      'fd00:244:0:2::/64 via fd00:244:0:2:: dev flannel-v6.1 metric 1024 onlink',
    ],
    pods: [...BRIDGE.pods, '10.244.2.0/24 dev flannel.1', 'fd00:244:0:2::/64 dev flannel-v6.1'],
  }),
  node('flannel (host-gw), of which only the own pods are known', {
    links: BRIDGE.links,
    routes: [
      ...BRIDGE.routes,
      '10.244.2.0/24 via 192.168.77.2 dev eth0',
      'fd00:244:0:2::/64 via fd77::2 dev eth0 metric 1024',
    ],
    pods: BRIDGE.pods,
  }),
  node('Calico (VXLAN)', {
    links: [...CALI.links, 'vxlan.calico vxlan', 'vxlan-v6.calico vxlan'],
    routes: [
      ...CALI.routes,
      '10.244.2.64/26 via 10.244.2.64 dev vxlan.calico onlink',
      'fd00:244:0:2::40/122 via fd00:244:0:2::40 dev vxlan-v6.calico metric 1024 onlink',
    ],
    pods: [...CALI.pods, '10.244.2.64/26 dev vxlan.calico', 'fd00:244:0:2::40/122 dev vxlan-v6.calico'],
  }),
  node('Calico (WireGuard), in a table of its own', {
    links: [...CALI.links, 'wireguard.cali wireguard'],
    routes: [...CALI.routes, '10.244.2.64/26 dev wireguard.cali scope link table 1'],
    pods: [...CALI.pods, '10.244.2.64/26 dev wireguard.cali table 1'],
  }),
  node('Cilium with a tunnel', {
    links: ['cilium_net dummy', 'cilium_host dummy', 'cilium_vxlan vxlan', 'lxc0123456789ab veth'],
    addresses: ['10.0.1.77/32 dev cilium_host'],
    routes: [
      '10.0.1.77 dev cilium_host proto kernel scope link',
      '10.0.1.0/24 via 10.0.1.77 dev cilium_host proto kernel src 10.0.1.77',
      '10.0.2.0/24 via 10.0.1.77 dev cilium_host proto kernel src 10.0.1.77 mtu 1450',
      'fd00:0:0:2::/64 dev cilium_host metric 1024',
      'default via 10.0.1.77 dev cilium_host table 2005',
    ],
    pods: ['10.0.1.0/24 dev cilium_host', '10.0.2.0/24 dev cilium_host', 'fd00:0:0:2::/64 dev cilium_host'],
  }),
  node('Antrea, whose Services are not pods', {
    links: ['antrea-gw0 dummy'],
    routes: [
      '10.244.1.0/24 dev antrea-gw0 proto kernel scope link',
      '10.244.2.0/24 via 10.244.2.1 dev antrea-gw0 onlink',
      '10.96.0.0/17 via 169.254.0.253 dev antrea-gw0 onlink',
      '203.0.113.200 via 169.254.0.253 dev antrea-gw0 onlink',
      'fd00:244:0:2::/64 via fd00:244:0:2::1 dev antrea-gw0 metric 1024 onlink',
      '2001:db8:5::5 via fc01::aabb:ccdd:eeff dev antrea-gw0 metric 1024 onlink',
    ],
    pods: [
      '10.244.1.0/24 dev antrea-gw0',
      '10.244.2.0/24 dev antrea-gw0',
      'fd00:244:0:2::/64 dev antrea-gw0',
    ],
  }),
  node('AWS VPC CNI, with a table for each interface of the node', {
    links: ['eni0123456789a veth', 'vlan0123456789 veth', 'vlan.eth.1 dummy'],
    routes: [
      '10.0.1.23 dev eni0123456789a scope link',
      'default dev vlan.eth.1 table 101',
      '10.0.1.24 dev vlan0123456789 scope link table 101',
    ],
    pods: ['10.0.1.23/32 dev eni0123456789a', '10.0.1.24/32 dev vlan0123456789 table 101'],
  }),
];

/** What is on nodes too, and leads to no pods. */
export const OTHER_NETWORKS: readonly PodNetwork[] = [
  node('Docker', {
    links: [
      'docker0 bridge',
      'veth4444444 veth docker0',
      'br-0123456789ab bridge',
      'veth5555555 veth br-0123456789ab',
      'docker_gwbridge bridge',
      'veth6666666 veth docker_gwbridge',
    ],
    routes: [
      '172.17.0.0/16 dev docker0 proto kernel scope link',
      '172.18.0.0/16 dev br-0123456789ab proto kernel scope link',
      '172.20.0.0/16 dev docker_gwbridge proto kernel scope link',
      'fd17::/64 dev docker0 proto kernel metric 256',
    ],
    pods: [],
  }),
  node('libvirt, Podman, nerdctl, LXD, Incus and LXC', {
    links: ['virbr0', 'cni-podman0', 'podman1', 'nerdctl0', 'lxdbr0', 'incusbr0', 'lxcbr0'].flatMap(
      (bridge, index) => [`${bridge} bridge`, `veth700000${index} veth ${bridge}`],
    ),
    routes: ['virbr0', 'cni-podman0', 'podman1', 'nerdctl0', 'lxdbr0', 'incusbr0', 'lxcbr0'].map(
      (bridge, index) => `192.168.${120 + index}.0/24 dev ${bridge} proto kernel scope link`,
    ),
    pods: [],
  }),
  {
    name: 'a bridge that the node itself and its containers hang on',
    links: ['br0 bridge', 'enp1s0 dummy br0', 'veth8888888 veth br0'],
    routes: [
      '192.168.77.0/24 dev br0 proto kernel scope link',
      'fd77::/64 dev br0 proto kernel metric 256',
      'default via 192.168.77.254 dev br0',
      'default via fd77::fe dev br0 metric 1024',
    ],
    pods: [],
  },
  node('VPNs: WireGuard, GRE, IPIP, OpenVPN', {
    links: ['wg0 wireguard', 'gre1 gre', 'ipip1 ipip', 'tun0 dummy'],
    routes: [
      '10.99.0.0/16 dev wg0 scope link',
      'fd99::/64 dev wg0 metric 1024',
      '10.98.0.0/16 dev gre1 scope link',
      '10.97.0.0/16 dev ipip1 scope link',
      '10.95.0.0/16 dev tun0 scope link table 200',
    ],
    pods: [],
  }),
];

function node(name: string, network: Omit<PodNetwork, 'name'>): PodNetwork {
  return {
    ...network,
    name,
    links: [...ETH0.links, ...network.links],
    routes: [...ETH0.routes, ...network.routes],
  };
}
