import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address } from '../../../lib/cidr/address.ts';
import type { BaseChain } from '../../../lib/foreign/base-chain.ts';
import { findForeignRules as find, findForeign, interestOf } from '../../../lib/foreign/find.ts';
import type { Policy } from '../../../lib/policy/policy.ts';
import { casesOf } from '../../lab/cases.ts';
import { addressFrom } from '../cidr/support.ts';
import { baseChainOf, KUBE_PROXY, policyOf, textOf, unlimited } from './support.ts';

const INSIDE = policyOf('10.0.0.0/8', '192.168.0.0/16');

/** The address that the AWS VPC CNI translates to is the node's own. */
const isOwn = ({ value }: Address) => value === addressFrom('192.168.4.12').value;

const findForeignRules = async (baseChains: readonly BaseChain[], policy: Policy) =>
  (await find(baseChains, interestOf(policy, isOwn), unlimited())).rules;

/** Of each rule that is found: author: destinations if conditions. */
const CASES = casesOf(`
  nothing where kube-proxy masquerades what it has marked
    ${KUBE_PROXY.join('\n    ')}
  nothing where kube-proxy uses another bit
    ${KUBE_PROXY.join('\n    ').replaceAll('0x4000', '0x10')}
  nothing where kube-proxy of old asks for its mark in one rule
    -A POSTROUTING -j KUBE-POSTROUTING
    -A KUBE-POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE
  nothing where a pod reaches itself
    -A POSTROUTING -s 10.0.0.2/32 -d 10.0.0.2/32 -p tcp -m tcp --dport 80 -j MASQUERADE
    -A POSTROUTING -j KUBE-POSTROUTING
    -A KUBE-POSTROUTING -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
  a mark that nobody is known for as a condition
    -A POSTROUTING -m mark --mark 0x7 -j MASQUERADE
    > unknown: 10.0.0.0/8 192.168.0.0/16 if mark 0x7
  no condition where only the marks of kube-proxy are left out
    ${KUBE_PROXY.join('\n    ')}
    -A POSTROUTING -d 10.1.0.0/16 -j MASQUERADE
    > unknown: 10.1.0.0/16
  nothing where only what the policy masquerades is masqueraded
    -A POSTROUTING ! -d 10.0.0.0/8 -j RETURN
    -A POSTROUTING -d 8.0.0.0/8 -j MASQUERADE
  nothing where pods reach all that the policy leaves alone without
    -A POSTROUTING -s 10.0.0.0/8 -d 10.0.0.0/8 -j RETURN
    -A POSTROUTING -s 10.0.0.0/8 -d 192.168.0.0/16 -j ACCEPT
    -A POSTROUTING -s 10.0.0.0/8 ! -o cni0 -j MASQUERADE
  the AWS VPC CNI
    -A POSTROUTING -m comment --comment "AWS SNAT CHAIN" -j AWS-SNAT-CHAIN-0
    -A AWS-SNAT-CHAIN-0 -d 192.168.0.0/16 -m comment --comment "AWS SNAT CHAIN" -j RETURN
    -A AWS-SNAT-CHAIN-0 ! -o vlan+ -m comment --comment "AWS, SNAT" -m addrtype ! --dst-type LOCAL -j SNAT --to-source 192.168.4.12 --random-fully
    > AWS VPC CNI: 10.0.0.0/8 if output interface not vlan+
  Cilium
    -A POSTROUTING -m comment --comment "cilium-feeder: CILIUM_POST_nat" -j CILIUM_POST_nat
    -A CILIUM_POST_nat -s 10.0.1.0/24 ! -d 10.0.0.0/8 ! -o cilium_+ -m comment --comment "cilium masquerade non-cluster" -j MASQUERADE
    > Cilium: 192.168.0.0/16 if source 10.0.1.0/24, output interface not cilium_+
  Calico
    -A POSTROUTING -m comment --comment "cali:O3lYWMrLQYEMJtB5" -j cali-POSTROUTING
    -A cali-POSTROUTING -j cali-nat-outgoing
    -A cali-nat-outgoing -m set --match-set cali40masq-ipam-pools src -m set ! --match-set cali40all-ipam-pools dst -j MASQUERADE
    > Calico: 10.0.0.0/8 192.168.0.0/16 if set match-set cali40masq-ipam-pools src, set match-set not cali40all-ipam-pools dst
  a CNI plugin
    -A POSTROUTING -s 10.88.0.2/32 -m comment --comment "name: \\"bridge\\" id: \\"0a1b\\"" -j CNI-0123456789abcdef01234567
    -A CNI-0123456789abcdef01234567 -d 10.88.0.0/16 -j ACCEPT
    -A CNI-0123456789abcdef01234567 ! -d 224.0.0.0/4 -j MASQUERADE
    > a CNI plugin: 10.0.0.0/10 10.64.0.0/12 10.80.0.0/13 10.89.0.0/16 10.90.0.0/15 10.92.0.0/14 10.96.0.0/11 10.128.0.0/9 192.168.0.0/16 if source 10.88.0.2/32
  libvirt
    -A POSTROUTING -j LIBVIRT_PRT
    -A LIBVIRT_PRT -s 192.168.122.0/24 -d 224.0.0.0/24 -j RETURN
    -A LIBVIRT_PRT -s 192.168.122.0/24 ! -d 192.168.0.0/16 -p tcp -j MASQUERADE --to-ports 1024-65535
    > libvirt: 10.0.0.0/8 if source 192.168.122.0/24, protocol tcp
  podman
    -A POSTROUTING -j NETAVARK-HOSTPORT-MASQ
    -A POSTROUTING -s 10.88.0.0/16 -j NETAVARK-1D8721804F16F
    -A NETAVARK-1D8721804F16F -d 10.0.0.0/8 -j ACCEPT
    -A NETAVARK-1D8721804F16F ! -d 224.0.0.0/4 -j MASQUERADE
    > podman: 192.168.0.0/16 if source 10.88.0.0/16
  LXD, and Incus
    -A POSTROUTING -s 10.5.0.0/16 ! -d 10.0.0.0/8 -m comment --comment "generated for LXD network lxdbr0" -j MASQUERADE
    -A POSTROUTING -s 10.6.0.0/16 ! -d 10.0.0.0/8 -m comment --comment "generated for Incus network incusbr0" -j MASQUERADE
    > LXD or Incus: 192.168.0.0/16 if source 10.5.0.0/16
    > LXD or Incus: 192.168.0.0/16 if source 10.6.0.0/16
  firewalld
    -A POSTROUTING -j POSTROUTING_ZONES
    -A POSTROUTING_ZONES -o eth0 -g POST_external
    -A POST_external -j POST_external_allow
    -A POST_external_allow ! -d 10.0.0.0/8 -j MASQUERADE
    > firewalld: 192.168.0.0/16 if output interface eth0
  ufw
    -A POSTROUTING -j ufw-postrouting
    -A ufw-postrouting ! -d 10.0.0.0/8 -j MASQUERADE
    > ufw: 192.168.0.0/16
  kind
    -A POSTROUTING -m addrtype ! --dst-type LOCAL -j KIND-MASQ-AGENT
    -A KIND-MASQ-AGENT -j MASQUERADE
    > kindnet: 10.0.0.0/8 192.168.0.0/16
`);

describe('foreign rules', () => {
  for (const { name, given: lines, found } of CASES)
    it(`are told: ${name}`, async () => {
      const rules = await findForeignRules([baseChainOf(lines)], INSIDE);
      const texts = rules.map(({ author, destinations, conditions }) => {
        const asked = conditions.length === 0 ? '' : ` if ${conditions.join(', ')}`;
        return `${author.name}: ${textOf(destinations)}${asked}`;
      });
      assert.deepEqual(texts, found);
    });

  for (const [match, some] of [
    ['-s 172.17.0.0/16', true],
    ['-s 172.17.0.0/16 -o eth0', true],
    ['! -s 172.17.0.0/16', false],
    ['-o eth0', false],
  ] as const)
    it(`are ${some ? '' : 'not '}only about some sources: ${match}`, async () => {
      const baseChains = [baseChainOf([`-A POSTROUTING ${match} -j MASQUERADE`])];
      const node = { baseChains, unread: [], skipped: [], samePriority: [] };
      const { findings } = await findForeign(node, [INSIDE], [], undefined, unlimited());
      const limited = findings.map(({ limitsSources }) => limitsSources);
      assert.deepEqual(limited, [some]);
    });

  it('show the way that leads to them', async () => {
    const lines = ['-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ', '-A IP-MASQ -j MASQUERADE'];
    const [rule] = await findForeignRules([baseChainOf(lines)], INSIDE);
    assert.deepEqual(rule?.path, lines);
    assert.equal(rule?.chainText, 'iptables (nft) nat POSTROUTING');
  });

  it('keep their key when the policy changes, and have different ones', async () => {
    const bases = [baseChainOf(['-A POSTROUTING -o a -j MASQUERADE', '-A POSTROUTING -o b -j MASQUERADE'])];
    const keys = async (policy: Policy) => (await findForeignRules(bases, policy)).map(({ key }) => key);
    assert.deepEqual(await keys(INSIDE), await keys(policyOf('172.16.0.0/12')));
    assert.equal(new Set(await keys(INSIDE)).size, 2);
  });

  it('of the other family do not matter', async () => {
    const base = baseChainOf(['-A POSTROUTING -j MASQUERADE'], 'IPv6');
    assert.deepEqual(await findForeignRules([base], INSIDE), []);
    assert.equal((await findForeignRules([base], policyOf('fd00::/8'))).length, 1);
  });
});
