import type { Family } from '../../lib/cidr/address.ts';

/** What another program keeps in iptables, and what of it masquerades 10.0.0.0/8, fd00::/8 or what is link-local. */
export interface ForeignProgram {
  readonly name: string;
  /** Lines of `nat` for iptables-restore. */
  readonly lines: Readonly<Record<Family, readonly string[]>>;
  /** Per rule: author: destinations if conditions. */
  readonly found: Readonly<Record<Family, readonly string[]>>;
}

/** All that the tests' policy leaves alone. */
export const ALL: Readonly<Record<Family, string>> = {
  IPv4: '10.0.0.0/8 169.254.0.0/16',
  IPv6: 'fd00::/8 fe80::/10',
};

/** The same without the pods of flannel, 10.244.0.0/16. */
const WITHOUT_FLANNEL =
  '10.0.0.0/9 10.128.0.0/10 10.192.0.0/11 10.224.0.0/12 10.240.0.0/14 10.245.0.0/16 10.246.0.0/15 10.248.0.0/13 169.254.0.0/16';

/** As these programs write their rules; of flannel and the clouds also what they no longer write. */
export const FOREIGN_PROGRAMS: readonly ForeignProgram[] = [
  {
    name: 'kubelet with --non-masquerade-cidr',
    lines: {
      IPv4: [
        '-A POSTROUTING ! -d 10.0.0.0/9 -m comment --comment "kubenet: SNAT for outbound traffic from cluster" -m addrtype ! --dst-type LOCAL -j MASQUERADE',
      ],
      IPv6: [
        '-A POSTROUTING ! -d fd00::/9 -m comment --comment "kubenet: SNAT for outbound traffic from cluster" -m addrtype ! --dst-type LOCAL -j MASQUERADE',
      ],
    },
    found: {
      IPv4: ['kubelet (kubenet): 10.128.0.0/9 169.254.0.0/16'],
      IPv6: ['kubelet (kubenet): fd80::/9 fe80::/10'],
    },
  },
  {
    name: 'the IP-MASQ chain of a cloud',
    lines: {
      IPv4: [
        ':IP-MASQ - [0:0]',
        '-A POSTROUTING -m comment --comment "ip-masq: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom IP-MASQ chain" -m addrtype ! --dst-type LOCAL -j IP-MASQ',
        '-A IP-MASQ -d 169.254.0.0/16 -m comment --comment "ip-masq: local traffic is not subject to MASQUERADE" -j RETURN',
        '-A IP-MASQ -d 10.0.0.0/9 -m comment --comment "ip-masq: local traffic is not subject to MASQUERADE" -j RETURN',
        '-A IP-MASQ -m comment --comment "ip-masq: outbound traffic is subject to MASQUERADE (must be last in chain)" -j MASQUERADE',
      ],
      IPv6: [
        ':IP-MASQ - [0:0]',
        '-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ',
        '-A IP-MASQ -d fe80::/10 -j RETURN',
        '-A IP-MASQ -j MASQUERADE',
      ],
    },
    found: {
      IPv4: ['a cloud node setup (IP-MASQ): 10.128.0.0/9'],
      IPv6: ['a cloud node setup (IP-MASQ): fd00::/8'],
    },
  },
  {
    name: 'another agent',
    lines: {
      IPv4: [
        ':MASQ-OLD - [0:0]',
        '-A POSTROUTING -m comment --comment "ip-masq-agent-v2: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom chain" -m addrtype ! --dst-type LOCAL -j MASQ-OLD',
        '-A MASQ-OLD -d 10.64.0.0/10 -j RETURN',
        '-A MASQ-OLD -j MASQUERADE --random-fully',
      ],
      IPv6: [
        ':IP-MASQ-AGENT-V2 - [0:0]',
        '-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT-V2',
        '-A IP-MASQ-AGENT-V2 -j MASQUERADE --random-fully',
      ],
    },
    found: {
      IPv4: ['another ip-masq-agent: 10.0.0.0/10 10.128.0.0/9 169.254.0.0/16'],
      IPv6: [`another ip-masq-agent: ${ALL.IPv6}`],
    },
  },
  {
    name: 'Docker',
    lines: {
      IPv4: [
        '-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE',
        '-A POSTROUTING -s 172.17.0.2/32 -d 172.17.0.2/32 -p tcp -m tcp --dport 80 -j MASQUERADE',
      ],
      IPv6: ['-A POSTROUTING -s fd00:17::/64 ! -o docker0 -j MASQUERADE'],
    },
    found: {
      IPv4: [`Docker: ${ALL.IPv4} if source 172.17.0.0/16, output interface not docker0`],
      IPv6: [`Docker: ${ALL.IPv6} if source fd00:17::/64, output interface not docker0`],
    },
  },
  {
    name: 'flannel of old',
    lines: {
      IPv4: [
        '-A POSTROUTING -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j RETURN',
        '-A POSTROUTING -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully',
        '-A POSTROUTING ! -s 10.244.0.0/16 -d 10.244.1.0/24 -m comment --comment "flanneld masq" -j RETURN',
        '-A POSTROUTING ! -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully',
      ],
      IPv6: [
        '-A POSTROUTING -s fd44::/48 ! -d ff00::/8 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully',
      ],
    },
    found: {
      IPv4: [
        `flannel: ${WITHOUT_FLANNEL} if source 10.244.0.0/16`,
        'flannel: 10.244.0.0/24 10.244.2.0/23 10.244.4.0/22 10.244.8.0/21 10.244.16.0/20 10.244.32.0/19 10.244.64.0/18 10.244.128.0/17 if source not 10.244.0.0/16',
      ],
      IPv6: [`flannel: ${ALL.IPv6} if source fd44::/48`],
    },
  },
  {
    name: 'flannel of today',
    lines: {
      IPv4: [
        ':FLANNEL-POSTRTG - [0:0]',
        '-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG',
        '-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN',
        '-A FLANNEL-POSTRTG -s 10.244.0.0/24 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j RETURN',
        '-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully',
      ],
      IPv6: [
        ':FLANNEL-POSTRTG - [0:0]',
        '-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG',
        '-A FLANNEL-POSTRTG -s fd44::/48 ! -d ff00::/8 -j MASQUERADE --random-fully',
      ],
    },
    found: {
      IPv4: [`flannel: ${ALL.IPv4} if source 10.244.0.0/16`],
      IPv6: [`flannel: ${ALL.IPv6} if source fd44::/48`],
    },
  },
];
