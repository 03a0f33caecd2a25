import type { Files } from '../lab/volume.ts';

export const CHAIN = 'IP-MASQ-AGENT';

/** Which families the agent keeps. */
export type Families = 'IPv4' | 'both';

const OWNERS = [10, 11, 12];

/** CIDRs of each family that each owner has. */
const PER_OWNER = 20;

/** Three owners with 20 CIDRs of each family; each number has others than the one before. */
export function sources(number: number, families: Families): Files {
  return Object.fromEntries(
    OWNERS.map((owner) => [
      `ip-masq-${owner}`,
      `nonMasqueradeCIDRs:\n${[
        ...ownPrefixes(owner, number, 'IPv4'),
        ...(families === 'both' ? ownPrefixes(owner, number, 'IPv6') : []),
      ]
        .map((prefix) => `  - ${prefix}\n`)
        .join('')}`,
    ]),
  );
}

/** All CIDRs of one family in the sources of that number. */
export function prefixesOf(number: number, family: 'IPv4' | 'IPv6'): readonly string[] {
  return OWNERS.flatMap((owner) => ownPrefixes(owner, number, family));
}

/** 256 numbers fit into one octet of IPv4; the bits above go where the index leaves room, so that 2,048 differ. */
function ownPrefixes(owner: number, number: number, family: 'IPv4' | 'IPv6'): readonly string[] {
  return Array.from({ length: PER_OWNER }, (_, index) =>
    family === 'IPv4'
      ? `${owner}.${index + PER_OWNER * ((number >> 8) & 7)}.${number & 255}.0/24`
      : `fd00:${owner}:${index}:${number.toString(16)}::/64`,
  );
}
