import type { Family } from '../../lib/policy/policy.ts';

/** For sh: the name of the set that the agent's chain looks up for this purpose. */
export function setInUse(family: Family, purpose = 'not-masqueraded'): string {
  const ip = family === 'IPv4' ? 'ip' : 'ip6';
  return `$(nft list chain ${ip} ip-masq-agent postrouting | grep -oP '@\\K${purpose}(-\\d+)?(?= )' | head -n1)`;
}

/** A listing without the numbers behind names of the agent's sets: they go on with each other content. */
export function unnumbered(listing: string): string {
  return listing.replaceAll(/((?:not-)?masqueraded(?:-from)?)-\d+\b/g, '$1');
}
