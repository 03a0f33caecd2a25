const DEFAULT_INSIDE = ['169.254.0.0/16', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'];

/** What ip-masq-agent-v2, and v1 of late, keep, by default with their defaults: as they write it, the quotes in a comment included. */
export function olderAgentRules(chain = 'IP-MASQ-AGENT', inside = DEFAULT_INSIDE): readonly string[] {
  const comment = (text: string) => `-m comment --comment "ip-masq-agent: ${text}"`;
  const outside = comment('outbound traffic is subject to MASQUERADE (must be last in chain)');
  const jump = `ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom ${chain} chain`;
  return [
    `:${chain} - [0:0]`,
    `-A POSTROUTING -m comment --comment "\\"${jump}\\"" -m addrtype ! --dst-type LOCAL -j ${chain}`,
    ...inside.map(
      (cidr) => `-A ${chain} ${comment('local traffic is not subject to MASQUERADE')} -d ${cidr} -j RETURN`,
    ),
    `-A ${chain} ${outside} -j MASQUERADE`,
  ];
}
