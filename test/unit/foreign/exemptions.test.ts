import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AUTHOR_IDS, authorOf } from '../../../lib/foreign/author.ts';
import { findForeign } from '../../../lib/foreign/find.ts';
import type { Policy } from '../../../lib/policy/policy.ts';
import { casesOf } from '../../lab/cases.ts';
import { addressFrom, prefixFrom } from '../cidr/support.ts';
import { baseChainOf, KUBE_PROXY, policyOf } from './support.ts';

const INSIDE = policyOf('10.0.0.0/8', '192.168.0.0/16');
const ALL_INSIDE = '10.0.0.0/8 (built in (test)), 192.168.0.0/16 (built in (test))';
const JUMP = '-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT';

/**
 * Rules that keep packets from the agent's rules, or that do not; the agent's jump is the last one if it is not among them. What
 * is found is an effect, an author, destinations and conditions.
 */
const CASES = casesOf(`
  a pod
    -A POSTROUTING -s 10.244.1.2/32 -j ACCEPT
    > exempts unknown every destination [source 10.244.1.2/32]
  a link
    -A POSTROUTING -o eth0 -j ACCEPT
    > exempts unknown every destination [output interface eth0]
  a port
    -A POSTROUTING -p udp -m udp --dport 4000 -j ACCEPT
    > exempts unknown every destination [protocol udp; udp dport 4000]
  a mark
    -A POSTROUTING -m mark --mark 0x7 -j RETURN
    > exempts unknown every destination [mark 0x7]
  a range
    -A POSTROUTING -d 100.64.0.0/10 -j ACCEPT
    > exempts unknown 100.64.0.0/10 []
  another address
    -A POSTROUTING -d 8.8.8.8/32 -j SNAT --to-source 203.0.113.7
    > exempts unknown 8.8.8.8 []
  a net of other addresses
    -A POSTROUTING -d 8.8.8.8/32 -j NETMAP --to 203.0.113.0/24
    > exempts unknown 8.8.8.8 []
  nothing where the address is the node's own
    -A POSTROUTING -d 8.8.8.8/32 -j SNAT --to-source 192.0.2.1
  nothing where another rule masquerades first
    -A POSTROUTING -d 8.0.0.0/8 -j MASQUERADE
    -A POSTROUTING -d 8.8.8.8/32 -j ACCEPT
  a chain that is gone to, whose end is the end
    -A POSTROUTING -d 100.64.0.0/10 -g SITE
    -A SITE -d 100.64.0.0/16 -j MASQUERADE
    > exempts unknown 100.65.0.0-100.127.255.255 []
  a chain that accepts
    -A POSTROUTING -j SITE
    -A SITE -d 100.64.0.0/10 -j ACCEPT
    > exempts unknown 100.64.0.0/10 []
  nothing where a chain only returns
    -A POSTROUTING -j SITE
    -A SITE -j RETURN
  nothing of kube-proxy
    ${KUBE_PROXY.join('\n    ')}
  nothing after the jump
    ${JUMP}
    -A POSTROUTING -s 10.244.1.2/32 -j ACCEPT
  nothing where all of it is left alone anyway
    -A POSTROUTING -d 10.0.0.0/9 -j ACCEPT
  nothing for multicast, which libvirt of old returns
    -A POSTROUTING -s 192.168.122.0/24 -d 224.0.0.0/24 -j RETURN
  nothing for what the node itself sends
    -A POSTROUTING -o lo -j ACCEPT
    -A POSTROUTING -s 127.0.0.0/8 -j ACCEPT
    -A POSTROUTING -m addrtype --src-type LOCAL -j RETURN
    -A POSTROUTING -m owner --uid-owner 1337 -j RETURN
  nothing where the name server of Docker answers in a node of kind
    -A POSTROUTING -d 127.0.0.11/32 -j DOCKER_POSTROUTING
    -A DOCKER_POSTROUTING -s 127.0.0.11/32 -p tcp -m tcp --sport 39123 -j SNAT --to-source :53
    -A POSTROUTING -s 127.0.0.11/32 -p udp -m udp --sport 42001 -j SNAT --to-source :53
  nothing where Istio gives probes of kubelet an address (hostprobe.golden of istio/istio)
    -A POSTROUTING -j ISTIO_POSTRT
    -A ISTIO_POSTRT -p tcp -m owner --socket-exists -m set --match-set istio-inpod-probes-v4 dst -j SNAT --to-source 169.254.7.127
  kube-vip with an egress (pkg/vip/egress.go of kube-vip/kube-vip)
    -A POSTROUTING -s 10.1.2.3/32 -m mark --mark 0x40/0x40 -m comment --comment "a3ViZS12aXAK=kube-vip-kube-system" -j SNAT --to-source 203.0.113.7
    > masquerades kube-vip ${ALL_INSIDE} [source 10.1.2.3/32; mark 0x40/0x40]
    > exempts kube-vip every destination [source 10.1.2.3/32; mark 0x40/0x40]
  Submariner (route agent of submariner-io/submariner)
    -A POSTROUTING -j SUBMARINER-POSTROUTING
    -A SUBMARINER-POSTROUTING -s 10.1.0.0/16 -d 100.71.0.0/16 -j ACCEPT
    > exempts submariner 100.71.0.0/16 [source 10.1.0.0/16]
  Antrea with an Egress (https://github.com/antrea-io/antrea/blob/main/docs/egress.md)
    -A POSTROUTING -m comment --comment "Antrea: jump to Antrea postrouting rules" -j ANTREA-POSTROUTING
    -A ANTREA-POSTROUTING ! -o antrea-gw0 -m comment --comment "Antrea: SNAT Pod to external packets" -m mark --mark 0x1/0xff -j SNAT --to-source 203.0.113.7
    > masquerades antrea ${ALL_INSIDE} [output interface not antrea-gw0; mark 0x1/0xff]
    > exempts antrea every destination [output interface not antrea-gw0; mark 0x1/0xff]
  a workaround for kube-router (https://github.com/cloudnativelabs/kube-router/issues/337)
    -A POSTROUTING ! -s 10.244.1.0/24 ! -d 10.0.0.0/8 -m ipvs --vdir ORIGINAL --vmethod MASQ -m comment --comment "" -j SNAT --to-source 203.0.113.7
    > masquerades unknown 192.168.0.0/16 (built in (test)) [source not 10.244.1.0/24; ipvs vdir ORIGINAL; ipvs vmethod MASQ]
    > exempts unknown every destination [source not 10.244.1.0/24; ipvs vdir ORIGINAL; ipvs vmethod MASQ]
  kube-router (https://github.com/cloudnativelabs/kube-router/issues/1780)
    -A POSTROUTING -m set --match-set kube-router-pod-subnets src -m set ! --match-set kube-router-pod-subnets dst -m set ! --match-set kube-router-node-ips dst -j MASQUERADE --random-fully
    > masquerades kube-router ${ALL_INSIDE} [set match-set kube-router-pod-subnets src; set match-set not kube-router-pod-subnets dst; set match-set not kube-router-node-ips dst]
  EgressGateway (https://github.com/spidernet-io/egressgateway/pull/2023)
    -A POSTROUTING -m comment --comment "egw:ymEAarDWTR9SHgDS" -m comment --comment "Accept for egress traffic from pod going to EgressTunnel" -m mark --mark 0x26000000/0xff000000 -j ACCEPT
    > exempts egressgateway every destination [mark 0x26000000/0xff000000]
  EgressGateway (https://github.com/spidernet-io/egressgateway/issues/1670)
    -A POSTROUTING -m comment --comment "egw:x1tdBi75jif7GCxh" -m comment --comment "SNAT for egress traffic" -j EGRESSGATEWAY-SNAT-EIP
    -A EGRESSGATEWAY-SNAT-EIP -m set --match-set egress-src-v4-205d1eb3fc1220351 src -m set ! --match-set egress-cluster-cidr-ipv4 dst -m conntrack --ctdir ORIGINAL -j SNAT --to-source 10.18.162.144
    > masquerades egressgateway ${ALL_INSIDE} [set match-set egress-src-v4-205d1eb3fc1220351 src; set match-set not egress-cluster-cidr-ipv4 dst; conntrack ctdir ORIGINAL]
    > exempts egressgateway every destination [set match-set egress-src-v4-205d1eb3fc1220351 src; set match-set not egress-cluster-cidr-ipv4 dst; conntrack ctdir ORIGINAL]
`);

async function found(lines: readonly string[], policy: Policy = INSIDE, accepted: readonly string[] = []) {
  const isOwn = ({ value }: { readonly value: bigint }) => value === addressFrom('192.0.2.1').value;
  const node = { baseChains: [baseChainOf(lines, policy.family)], unread: [], skipped: [], samePriority: [] };
  return (await findForeign(node, [policy], accepted, isOwn)).findings;
}

describe('rules before the agent', () => {
  for (const { name, given: lines, found: expected } of CASES)
    it(`are told: ${name}`, async () => {
      const findings = await found(lines.includes(JUMP) ? lines : [...lines, JUMP]);
      const texts = findings.map(({ effect, author, message, evidence }) => {
        const [, to] = /traffic to (.*), which the config/.exec(message) ?? [];
        const asked = evidence.filter((one) => one.startsWith('only if: ')).map((one) => one.slice(9));
        return `${effect} ${author} ${to} [${asked}]`;
      });
      assert.deepEqual(texts, expected);
    });

  it('do not matter where no agent is', async () =>
    assert.deepEqual(await found(['-A POSTROUTING -s 10.244.1.2/32 -j ACCEPT']), []));

  it('do not matter for sources that masqueradeFromCIDRs leaves out', async () => {
    const origin = { kind: 'built-in', basis: 'test' } as const;
    const from = [{ prefix: prefixFrom('10.244.0.0/16'), verdict: 'masqueraded', origin }] as const;
    const rule = (source: string) => [`-A POSTROUTING -s ${source} -j ACCEPT`, JUMP];
    assert.deepEqual(await found(rule('172.17.0.0/16'), { ...INSIDE, from }), []);
    assert.equal((await found(rule('10.244.1.0/24'), { ...INSIDE, from })).length, 1);
  });

  it('have one remedy, whatever they do: nobody is told to leave a rule alone, and to delete it', async () => {
    // https://github.com/ovn-kubernetes/ovn-kubernetes/issues/6799
    const jump = '-A POSTROUTING -j OVN-KUBE-EGRESS-SVC';
    const findings = await found([jump, '-A OVN-KUBE-EGRESS-SVC -j SNAT --to-source 203.0.113.7', JUMP]);
    assert.deepEqual(
      findings.map(({ effect, author }) => `${effect} ${author}`),
      ['masquerades ovn-kubernetes', 'exempts ovn-kubernetes'],
    );
    for (const { remedy } of findings) assert.match(remedy, /^do not change it/);
    const [returns] = await found(['-A POSTROUTING -j OVN-KUBE-X', '-A OVN-KUBE-X -j ACCEPT', JUMP]);
    assert.match(returns?.remedy ?? '', /nonMasqueradeCIDRs/);
  });

  it("do not matter if they are only for packets to the node's own addresses", async () => {
    // https://github.com/kubernetes/dns/issues/318
    const listens = '-A POSTROUTING -d 192.0.2.1/32 -p udp -m udp --dport 53 -j NOTRACK';
    assert.deepEqual(await found([listens]), []);
    assert.deepEqual(await found(['-A POSTROUTING -d 192.0.2.1/32 -j ACCEPT', JUMP]), []);
    assert.equal((await found([listens.replace('192.0.2.1', '192.0.2.2')])).length, 1);
  });

  it('of kube-proxy in IPVS mode are silent in IPv6 too', async () => {
    const lines = [
      '-A POSTROUTING -j KUBE-POSTROUTING',
      '-A KUBE-POSTROUTING -m set --match-set KUBE-6-LOOP-BACK dst,dst,src -j MASQUERADE',
    ];
    assert.deepEqual(await found(lines, policyOf('fd00::/8')), []);
  });
});

describe('a foreign rule', () => {
  const LINES = [
    '-A POSTROUTING -j SITE',
    '-A SITE -s 172.30.0.0/16 -m comment --comment "site: vpn, to the left" -j MASQUERADE',
    '-A POSTROUTING -s 172.31.0.0/16 -j MASQUERADE',
  ];
  for (const [accepted, left] of [
    ['nat/SITE', 1],
    ['nat/POSTROUTING', 1],
    ['comment=site: vpn', 1],
    ['comment=vpn', 2],
    ['nat/OTHER', 2],
    ['unknown', 0],
  ] as const)
    it(`is accepted, or not, by ${accepted}`, async () => {
      const findings = await found(LINES, INSIDE, [accepted]);
      assert.equal(findings.filter(({ isAccepted }) => !isAccepted).length, left);
    });
});

/** The rules that lead to one that masquerades, each author with a word of what to do. */
const AUTHORS = casesOf(`
  an agent of an older version, by its comment
    -A POSTROUTING -j IP-MASQ
    -A IP-MASQ -m comment --comment "ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last in chain)" -j MASQUERADE
    > ip-masq-agent: cleanup --masq-chain=IP-MASQ
  an agent with another chain
    -A POSTROUTING -j OLD
    -A OLD -m comment --comment "ip-masq-agent: masqueraded (default)" -j MASQUERADE
    > ip-masq-agent: cleanup --masq-chain=OLD
  another agent
    -A POSTROUTING -j IP-MASQ
    -A IP-MASQ -m comment --comment "ip-masq: outbound traffic is subject to MASQUERADE" -j MASQUERADE
    > ip-masq: --masq-chain=IP-MASQ,
  Tailscale
    -A POSTROUTING -j ts-postrouting
    -A ts-postrouting -m mark --mark 0x40000/0xff0000 -j MASQUERADE
    > tailscale: --snat-subnet-routes=false
  Antrea
    -A POSTROUTING -j ANTREA-POSTROUTING
    -A ANTREA-POSTROUTING -j MASQUERADE
    > antrea: noSNAT
  kube-router
    -A POSTROUTING -m set --match-set kube-router-pod-subnets src -j MASQUERADE
    > kube-router: --enable-pod-egress=false
  Weave
    -A POSTROUTING -j WEAVE
    -A WEAVE -s 10.32.0.0/12 ! -d 10.32.0.0/12 -j MASQUERADE
    > weave: accept
  Kube-OVN
    -A POSTROUTING -m comment --comment "kube-ovn postrouting rules" -j OVN-POSTROUTING
    -A OVN-POSTROUTING -m set --match-set ovn40subnets-nat src -j OVN-MASQUERADE
    -A OVN-MASQUERADE -j MASQUERADE
    > kube-ovn: natOutgoing
  OVN-Kubernetes
    -A POSTROUTING -o ovn-k8s-mp0 -j OVN-KUBE-SNAT-MGMTPORT
    -A OVN-KUBE-SNAT-MGMTPORT -o ovn-k8s-mp0 -m comment --comment "OVN SNAT to Management Port" -j SNAT --to-source 10.42.0.2
    > ovn-kubernetes: do not change it
  Submariner
    -A POSTROUTING -j SUBMARINER-POSTROUTING
    -A SUBMARINER-POSTROUTING -j SNAT --to-source 10.42.0.2
    > submariner: accept
  Istio
    -A POSTROUTING -j ISTIO_POSTRT
    -A ISTIO_POSTRT -j SNAT --to-source 169.254.7.127
    > istio: probes
  NetBird
    -A POSTROUTING -j NETBIRD-RT-NAT
    -A NETBIRD-RT-NAT -j MASQUERADE
    > netbird: Masquerade
  Docker
    -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
    > docker: --ip-masq=false
`);

/** The same of tables of nftables. */
const TABLE_AUTHORS = [
  ['inet firewalld nat_POSTROUTING', 'firewalld', ''],
  ['ip libvirt_network guest_nat', 'libvirt', ''],
  ['inet netavark POSTROUTING', 'podman', ''],
  ['inet lxd pstrt.lxdbr0', 'lxd', ''],
  ['inet incus pstrt.incusbr0', 'lxd', ''],
  ['inet incus_masq postrouting', 'unknown', ''],
  ['inet ovn-kubernetes mgmtport-snat', 'ovn-kubernetes', 'do not change it'],
  ['ip netbird netbird-rt-nat', 'netbird', 'Masquerade'],
  ['ip nm-shared-eth1 nat_postrouting', 'networkmanager', 'nmcli'],
  ['ip io.systemd.nat postrouting', 'systemd', 'IPMasquerade'],
] as const;

describe('the author', () => {
  for (const { name, given: lines, found } of AUTHORS)
    it(`is told: ${name}`, () => {
      const { id, remedy } = authorOf('iptables (nft) nat POSTROUTING', lines);
      const [expected = '', said = ''] = (found[0] ?? '').split(': ');
      assert.equal(id, expected);
      assert.ok(remedy.includes(said), remedy);
      assert.ok(AUTHOR_IDS.includes(id));
    });

  for (const [table, expected, said] of TABLE_AUTHORS)
    it(`of ${table} is ${expected}`, () => {
      const { id, remedy } = authorOf(`nftables ${table}`, ['ip saddr 10.5.0.0/16 masquerade']);
      assert.equal(id, expected);
      assert.ok(remedy.includes(said), remedy);
    });
});
