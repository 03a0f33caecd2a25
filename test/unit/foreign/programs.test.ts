import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { programOf } from '../../../lib/foreign/programs.ts';

/** What names and comments say, as programs write them, and the program. */
const NAMED: readonly (readonly [evidence: string, program: string | undefined])[] = [
  ['table ip nat\nKUBE-POSTROUTING', 'kube-proxy'],
  ['table ip6 kube-proxy', 'kube-proxy'],
  ['table ip kube-proxy-extra', undefined],
  ['table ip nat\nkube hostport masquerading\nCRIO-HOSTPORTS-MASQ\nCRIO-MASQ-X', 'CRI-O'],
  ['table ip crio-hostports', 'CRI-O'],
  ['table inet crio', 'CRI-O'],
  ['table ip nat\nCNI portfwd requiring masquerade\nCNI-HOSTPORT-MASQ', 'CNI portmap'],
  ['table ip nat\nname: "mynet" id: "1"\nCNI-0123456789abcdef01234567', 'a CNI plugin'],
  ['table ip nat\nkubenet: SNAT for outbound traffic from cluster', 'kubelet (kubenet)'],
  ['table ip nat\nflanneld masq', 'flannel'],
  ['table ip flannel-ipv4', 'flannel'],
  ['table ip nat\nAWS-SNAT-CHAIN-0', 'AWS VPC CNI'],
  ['table ip nat\nSWIFT-POSTROUTING', 'Azure CNS'],
  ['table ip nat\ncali-POSTROUTING\ncali:O3lYWMrLQYEMJtB5', 'Calico'],
  ['table ip nat\nCILIUM_POST_nat', 'Cilium'],
  [
    'table ip nat\nip-masq: outbound traffic is subject to MASQUERADE\nIP-MASQ',
    'a cloud node setup (IP-MASQ)',
  ],
  ['table ip nat\nip-masq-agent: ensure nat POSTROUTING\nMASQ-OLD', 'another ip-masq-agent'],
  ['table inet ip-masq-agent', 'another ip-masq-agent'],
  ['-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE', 'Docker'],
  ['table ip nat\nDOCKER-INGRESS', 'Docker'],
  ['table inet ovn-kubernetes', 'OVN-Kubernetes'],
  ['table ip nat\nSITE', undefined],
];

describe('the program of a suspect', () => {
  for (const [evidence, program] of NAMED)
    it(`is ${program} where names say ${evidence.replaceAll('\n', ', ')}`, () =>
      assert.equal(programOf(evidence.split('\n'))?.name, program));
});
