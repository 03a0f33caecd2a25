import type { Family } from '../../lib/cidr/address.ts';
import { ALL } from './foreign-iptables.ts';
import { kubeProxyTable } from './kube-proxy.ts';

/** What another program keeps in nftables, as a script of nft(8) for both families, and what of it is found. */
export const NATIVE: readonly {
  readonly name: string;
  readonly script: string;
  readonly found: Readonly<Record<Family, readonly string[]>>;
}[] = [
  {
    name: 'flannel',
    script: `
      table ip flannel-ipv4 {
        chain postrtg {
          type nat hook postrouting priority srcnat; policy accept;
          meta mark 0x4000 return
          ip saddr 10.244.0.0/24 ip daddr 10.244.0.0/16 return
          ip saddr 10.244.0.0/16 ip daddr != 224.0.0.0/4 masquerade fully-random
        }
      }
      table ip6 flannel-ipv6 {
        chain postrtg {
          type nat hook postrouting priority srcnat; policy accept;
          ip6 saddr fd44::/48 ip6 daddr != ff00::/8 masquerade fully-random
        }
      }`,
    found: {
      IPv4: [`flannel: ${ALL.IPv4} if ip saddr 10.244.0.0/16`],
      IPv6: [`flannel: ${ALL.IPv6} if ip6 saddr fd44::/48`],
    },
  },
  {
    name: 'kindnet',
    script: `
      table inet kindnet-ipmasq {
        set noMasqV4 { type ipv4_addr; flags interval; auto-merge; elements = { 10.0.0.0/9, 169.254.0.0/16 }; }
        set noMasqV6 { type ipv6_addr; flags interval; auto-merge; elements = { fd00::/9 }; }
        chain postrouting {
          type nat hook postrouting priority 90; policy accept;
          ct state established,related accept
          fib saddr type local accept
          ip daddr @noMasqV4 accept
          ip6 daddr @noMasqV6 accept
          masquerade
        }
      }`,
    found: { IPv4: ['kindnet: 10.128.0.0/9'], IPv6: ['kindnet: fd80::/9 fe80::/10'] },
  },
  {
    name: 'Docker',
    script: ['ip', 'ip6']
      .map(
        (table) => `
      table ${table} docker-bridges {
        map nat-postrouting-in-jumps { type ifname : verdict; elements = { "docker0" : jump nat-postrouting-in__docker0 }; }
        map nat-postrouting-out-jumps { type ifname : verdict; elements = { "docker0" : jump nat-postrouting-out__docker0 }; }
        chain nat-postrouting-in__docker0 { }
        chain nat-postrouting-out__docker0 {
          oifname != "docker0" ${table === 'ip' ? 'ip saddr 172.17.0.0/16' : 'ip6 saddr fd00:17::/64'} counter masquerade comment "MASQUERADE"
        }
        chain nat-POSTROUTING {
          type nat hook postrouting priority srcnat; policy accept;
          iifname vmap @nat-postrouting-out-jumps
          oifname vmap @nat-postrouting-in-jumps
        }
      }`,
      )
      .join('\n'),
    found: {
      IPv4: [`Docker: ${ALL.IPv4} if iifname "docker0", oifname != "docker0", ip saddr 172.17.0.0/16`],
      IPv6: [`Docker: ${ALL.IPv6} if iifname "docker0", oifname != "docker0", ip6 saddr fd00:17::/64`],
    },
  },
  {
    name: 'somebody who decides by a map of destinations',
    script: `
      table inet site {
        map where4 { type ipv4_addr : verdict; flags interval; elements = { 10.0.0.0/9 : accept, 10.128.0.0/9 : jump nat }; }
        chain nat { masquerade; }
        chain post {
          type nat hook postrouting priority 110; policy accept;
          ip daddr vmap @where4
          ip6 daddr { fd00::/9, fd80::-fd80::3 } goto nat
        }
      }`,
    found: { IPv4: ['unknown: 10.128.0.0/9'], IPv6: ['unknown: fd00::/9 fd80::/126'] },
  },
  {
    name: 'somebody who leaves alone what goes from pod to pod, and decides by maps',
    script: `
      table inet site {
        map to4 { type ipv4_addr : ipv4_addr; elements = { 10.1.2.3 : 192.0.2.1 }; }
        map to6 { type ipv6_addr : ipv6_addr; elements = { fd01::3 : 2001:db8::1 }; }
        chain post {
          type nat hook postrouting priority 110; policy accept;
          ip saddr 10.1.0.0/16 ip daddr 10.0.0.0/8 return
          ip6 saddr fd01::/16 ip6 daddr fd00::/8 oifname "eth0" return
          ip saddr 10.1.0.0/16 snat ip to ip saddr map @to4
          ip6 saddr fd01::/16 oifname "eth0" snat ip6 to ip6 saddr map @to6
        }
      }`,
    found: {
      IPv4: ['unknown: 169.254.0.0/16 if ip saddr 10.1.0.0/16'],
      IPv6: ['unknown: fe80::/10 if ip6 saddr fd01::/16, oifname "eth0"'],
    },
  },
  {
    name: 'OVN-Kubernetes at its management port',
    script: `
      table inet ovn-kubernetes {
        set mgmtport-no-snat-nodeports { type inet_proto . inet_service; elements = { tcp . 30080 }; }
        chain mgmtport-snat {
          type nat hook postrouting priority srcnat; policy accept;
          oifname != "ovn-k8s-mp0" return
          meta l4proto . th dport @mgmtport-no-snat-nodeports counter return
          counter snat ip to 10.131.0.2
          counter snat ip6 to fd01::2
        }
      }`,
    found: { IPv4: [], IPv6: [] },
  },
  {
    name: 'nobody but kube-proxy, the CNI plugin portmap, and ourselves',
    script: (['ip', 'ip6'] as const)
      .map(
        (table) => `
      ${kubeProxyTable(table)}
      table ${table} cni_hostport {
        chain masquerading { type nat hook postrouting priority srcnat; meta mark & 0x2000 == 0x2000 masquerade; }
      }
      table ${table} ip-masq-agent {
        chain postrouting { type nat hook postrouting priority srcnat; masquerade; }
      }`,
      )
      .join('\n'),
    found: { IPv4: [], IPv6: [] },
  },
];
