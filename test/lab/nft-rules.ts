/** Rules as nft(8) of all releases takes them, and what they mean for packets of IPv4. */

/** What the rules use. Elements of each kind: plain, intervals, with a time limit, for all other keys. */
const BEFORE = `
  set nomasq { type ipv4_addr; flags interval; elements = { 1.2.3.4, 10.0.0.0/8, 172.16.0.0-172.16.0.3 }; }
  set fading { type ipv4_addr; flags timeout; elements = { 10.9.9.9 timeout 1h }; }
  set empty { type ipv4_addr; }
  set by-port { type ipv4_addr . inet_service; elements = { 10.0.0.1 . 80 }; }
  set of-ranges { type ipv4_addr . inet_service; flags interval; elements = { 10.0.0.0/24 . 80-90, 10.0.0.0/24 . 443 }; }
  set nomasq6 { type ipv6_addr; flags interval; elements = { fd00::/8 }; }
  map jumps { type ifname : verdict; elements = { "docker0" : jump x }; }
  map networks { type ipv4_addr : verdict; flags interval; elements = { 10.0.0.0/8 : goto x, 1.2.3.4 : accept }; }
  map ports { type ipv4_addr . inet_service : verdict; elements = { 10.0.0.1 . 80 : drop }; }
  map marks { type mark : verdict; elements = { 0x00000005 : accept }; }
  map by-source { type ipv4_addr : ipv4_addr; elements = { 10.1.2.3 : 192.0.2.1 }; }
  chain x { }
`;

type Case = readonly [rule: string, text: string | undefined, ...meanings: readonly string[]];

/** A rule, its text if that is another one, and the rules that it makes. */
export const NFT_RULES: readonly Case[] = [
  ['masquerade', undefined, 'all | | masquerades'],
  ['counter masquerade fully-random', 'masquerade fully-random', 'all | | masquerades'],
  [
    'meta l4proto tcp masquerade to :1024-2000 random,persistent',
    'meta l4proto tcp masquerade to :1024-2000 random persistent',
    'all | meta l4proto tcp | masquerades',
  ],
  ['snat ip to 192.0.2.1', 'snat to 192.0.2.1', 'all | | masquerades'],
  ['snat ip to 192.0.2.1-192.0.2.9', 'snat to 192.0.2.1-192.0.2.9', 'all | | masquerades'],
  ['snat ip6 to 2001:db8::1', '*', ' | | masquerades'],
  ['snat ip to ip saddr map @by-source', 'snat to ip saddr map @by-source', 'all | | masquerades'],
  ['snat ip to ip saddr map { 10.0.0.1 : 192.0.2.1 }', 'snat to ip saddr map { … }', 'all | | masquerades'],
  ['accept', undefined, 'all | | ends'],
  ['return', undefined, 'all | | returns'],
  ['drop', undefined, 'all | | else'],
  ['jump x', undefined, 'all | | jump x'],
  ['goto x', undefined, 'all | | goto x'],
  ['continue', undefined, 'all | | goes on'],
  ['log prefix "x"', 'log', 'all | | goes on'],
  ['meta mark set 0x1', undefined, 'all | | goes on'],
  ['meta mark set meta mark | 0x4000', undefined, 'all | | goes on'],
  ['meta mark set meta mark & 0xffff', undefined, 'all | | goes on'],
  ['meta mark set meta mark ^ 0x4000', undefined, 'all | | goes on'],
  ['ct mark set meta mark', undefined, 'all | | goes on'],
  ['ip saddr set 192.0.2.1', undefined, 'all | | rewrites'],
  ['ip daddr set ip saddr map @by-source', undefined, 'all | | rewrites'],
  ['ip6 saddr set 2001:db8::1', '*', ' | * | goes on'],
  ['snat ip prefix to ip saddr map { 10.0.0.0/24 : 192.0.2.0/24 }', '*', 'all | | masquerades'],
  ['limit rate 1/second masquerade', 'limit masquerade', 'all | limit | masquerades'],
  ['meta skuid 1000 accept', undefined, 'all | meta skuid 1000 | ends'],
  ['oifgroup 7 accept', undefined, 'all | oifgroup 7 | ends'],
  ['ip ttl 64 accept', '*', 'all | * | ends'],
  ['ip daddr 10.0.0.0/8 accept', undefined, '10.0.0.0/8 | | ends'],
  ['ip daddr 10.128.0.0/9 accept', undefined, '10.128.0.0/9 | | ends'],
  ['ip daddr != 128.0.0.0/1 accept', undefined, '0.0.0.0/1 | | ends'],
  ['ip daddr 10.1.2.3 accept', undefined, '10.1.2.3/32 | | ends'],
  ['ip daddr 10.0.0.0-10.0.0.5 accept', undefined, '10.0.0.0/30 10.0.0.4/31 | | ends'],
  ['ip daddr < 1.0.0.0 accept', 'ip daddr 0.0.0.0/8 accept', '0.0.0.0/8 | | ends'],
  ['ip daddr { 1.1.1.1, 10.0.0.0/8 } accept', undefined, '1.1.1.1/32 10.0.0.0/8 | | ends'],
  ['ip daddr @nomasq return', undefined, '1.2.3.4/32 10.0.0.0/8 172.16.0.0/30 | | returns'],
  ['ip daddr @fading return', undefined, '10.9.9.9/32 | | returns'],
  ['ip daddr @empty return', undefined, ' | | returns'],
  ['ip daddr != @empty return', undefined, 'all | | returns'],
  ['ip6 daddr @nomasq6 accept', '*', ' | * | ends'],
  ['ip6 daddr fd00::1 accept', '*', ' | * | ends'],
  [
    'ip daddr . tcp dport @by-port accept',
    'meta l4proto tcp ip daddr . th dport @by-port accept',
    'all | meta l4proto tcp, ip daddr . th dport @by-port | ends',
  ],
  [
    'ip daddr . tcp dport @of-ranges accept',
    'meta l4proto tcp ip daddr . th dport @of-ranges accept',
    'all | meta l4proto tcp, ip daddr . th dport @of-ranges | ends',
  ],
  ['ip daddr & 255.0.0.255 == 10.0.0.1 accept', undefined, 'all | ip daddr & 255.0.0.255 == 10.0.0.1 | ends'],
  ['meta nfproto ipv4 accept', undefined, 'all | | ends'],
  ['meta nfproto ipv6 accept', undefined, ' | | ends'],
  ['meta protocol ip6 accept', undefined, ' | | ends'],
  [
    'ip saddr 10.0.0.0/8 oifname != "docker0" masquerade',
    undefined,
    'all | ip saddr 10.0.0.0/8, oifname != "docker0" | masquerades',
  ],
  ['oifname "eth*" masquerade', undefined, 'all | oifname "eth*" | masquerades'],
  ['oifname { "eth0", "eth1" } masquerade', undefined, 'all | oifname { "eth0", "eth1" } | masquerades'],
  ['tcp dport 80 masquerade', undefined, 'all | meta l4proto tcp, th dport 80 | masquerades'],
  ['ip protocol udp masquerade', undefined, 'all | ip protocol udp | masquerades'],
  ['fib daddr type != local jump x', undefined, 'all | | jump x'],
  ['fib daddr type local accept', undefined, ' | | ends'],
  ['fib saddr type local accept', undefined, 'all | fib saddr type local | ends'],
  ['meta mark & 0x4000 == 0 return', 'meta mark & 0x4000 == 0 return', 'all | | returns'],
  ['meta mark & 0x4000 != 0x4000 return', 'meta mark & 0x4000 != 0x4000 return', 'all | | returns'],
  ['meta mark 0x4000 masquerade', 'meta mark 0x4000 masquerade', ' | | masquerades'],
  ['meta mark 0x5 return', 'meta mark 0x5 return', 'all | mark 0x5 | returns'],
  ['ct state established,related accept', undefined, 'all | ct state established,related | ends'],
  ['ct mark 0x7 accept', 'ct mark 0x7 accept', 'all | ct mark 0x7 | ends'],
  ['iifname vmap @jumps', 'iifname vmap @jumps ("docker0" : jump x)', 'all | iifname "docker0" | jump x'],
  ['meta mark vmap @marks', 'meta mark vmap @marks (0x5 : accept)', 'all | mark 0x5 | ends'],
  [
    'ip daddr vmap @networks',
    'ip daddr vmap @networks (1.2.3.4 : accept)',
    '1.2.3.4/32 | | ends',
    '10.0.0.0/8 | | goto x',
  ],
  [
    'ip daddr . tcp dport vmap @ports',
    '*',
    'all | meta l4proto tcp, ip daddr . th dport 0xa00000100500000 | else',
  ],
  ['ip daddr 10.0.0.0/8 masquerade comment "mine"', undefined, '10.0.0.0/8 | | masquerades'],
];

/** A table of nft(8) with each rule in a chain of its own, and a base chain that leads to all. */
export function tableOf(rules: readonly Case[]): string {
  const chains = rules.map(([rule], index) => `  chain c${index} { ${rule}; }\n`);
  const jumps = rules.map((_, index) => `jump c${index}; `);
  return `table inet cases {${BEFORE}${chains.join('')}
  chain post { type nat hook postrouting priority 90; ${jumps.join('')} }
}
`;
}
