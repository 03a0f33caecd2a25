/** What three endpoints and their Service make: rules of one KUBE-SERVICES entry, its chain and those of its endpoints. */
const RULES_PER_SERVICE = 11;
const ENDPOINTS = 3;

/**
 * Lines of `nat` for iptables-restore, in parts that go one after the other: the rules of kube-proxy in iptables mode,
 * about as many as wanted, in chains of their own. POSTROUTING gets one, KUBE-POSTROUTING three.
 *
 * @param perPart Services in a part
 */
export function kubeProxyRules(wanted: number, perPart: number): readonly (readonly string[])[] {
  const services = Array.from({ length: Math.ceil(wanted / RULES_PER_SERVICE) }, (_, index) => index);
  const parts = Math.ceil(services.length / perPart);
  return [
    COMMON,
    ...Array.from({ length: parts }, (_, part) => {
      const own = services.slice(part * perPart, (part + 1) * perPart);
      return [...own.flatMap(chainsOf), ...own.flatMap(rulesOf)];
    }),
  ];
}

/** What kube-proxy has whatever the Services; also a clean node's share of POSTROUTING. */
export const COMMON: readonly string[] = [
  ':KUBE-SERVICES - [0:0]',
  ':KUBE-POSTROUTING - [0:0]',
  ':KUBE-MARK-MASQ - [0:0]',
  '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  '-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  '-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
  '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
  '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
  '-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0',
  '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully',
];

function chainsOf(service: number): readonly string[] {
  const endpoints = endpointsOf(service).map(({ chain }) => `:${chain} - [0:0]`);
  return [`:${serviceChain(service)} - [0:0]`, ...endpoints];
}

function rulesOf(service: number): readonly string[] {
  const address = `10.96.${service >> 8}.${service & 255}`;
  const chain = serviceChain(service);
  const comment = `-m comment --comment "default/service-${service}:http"`;
  return [
    `-A KUBE-SERVICES -d ${address}/32 -p tcp ${comment} -m tcp --dport 80 -j ${chain}`,
    `-A ${chain} ! -s 10.244.0.0/16 -d ${address}/32 -p tcp ${comment} -m tcp --dport 80 -j KUBE-MARK-MASQ`,
    ...endpointsOf(service).flatMap((endpoint, index) => {
      const share = (1 / (ENDPOINTS - index)).toFixed(11);
      const chance = index < ENDPOINTS - 1 ? `-m statistic --mode random --probability ${share} ` : '';
      return [
        `-A ${chain} ${comment} ${chance}-j ${endpoint.chain}`,
        `-A ${endpoint.chain} -s ${endpoint.address}/32 ${comment} -j KUBE-MARK-MASQ`,
        `-A ${endpoint.chain} -p tcp ${comment} -m tcp -j DNAT --to-destination ${endpoint.address}:8080`,
      ];
    }),
  ];
}

function serviceChain(service: number): string {
  return `KUBE-SVC-${hash(service)}`;
}

function endpointsOf(service: number): readonly { readonly chain: string; readonly address: string }[] {
  return Array.from({ length: ENDPOINTS }, (_, index) => {
    const endpoint = service * ENDPOINTS + index;
    return {
      chain: `KUBE-SEP-${hash(endpoint)}`,
      address: `10.244.${(endpoint >> 8) & 255}.${endpoint & 255}`,
    };
  });
}

/** As long as the hashes that kube-proxy puts into names of chains. */
function hash(number: number): string {
  return number.toString(36).toUpperCase().padStart(16, '0');
}

/**
 * The table of kube-proxy in nftables mode since Kubernetes 1.36, as far as it masquerades: what kube-proxy has marked, which loses
 * the mark, and pods that reach themselves through a Service, such as the one here.
 */
export function kubeProxyTable(table: 'ip' | 'ip6'): string {
  const [type, pod] = table === 'ip' ? ['ipv4_addr', '10.244.1.9'] : ['ipv6_addr', 'fd00:244::9'];
  return `
    table ${table} kube-proxy {
      set hairpin-connections {
        type ${type} . ${type} . inet_proto . inet_service
        comment "service hairpin connections"
        elements = { ${pod} . ${pod} . tcp . 8080 }
      }
      chain masquerading {
        meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000 masquerade fully-random
        ct status dnat ${table} saddr . ${table} daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
      }
      chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }
    }`;
}
