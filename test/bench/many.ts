import type { Policy } from '../../lib/policy/policy.ts';
import { policyOf } from '../kernel/support.ts';
import type { Files } from '../lab/volume.ts';

/** As many as fit into a file of 1 MiB, and some room. */
const PER_SOURCE = 25_000;

/** So many CIDRs that do not touch each other. */
function manyPrefixes(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => {
    const address = 11 * 2 ** 24 + index * 32;
    return `${[24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.')}/28`;
  });
}

/** Sources of so many CIDRs. */
export function manySources(count: number): Files {
  const prefixes = manyPrefixes(count);
  return Object.fromEntries(
    Array.from({ length: Math.ceil(count / PER_SOURCE) }, (_, source) => {
      const own = prefixes.slice(source * PER_SOURCE, (source + 1) * PER_SOURCE);
      const lines = own.map((prefix) => `  - ${prefix}\n`).join('');
      return [`ip-masq-${source}`, `cidrLimit: ${PER_SOURCE}\nnonMasqueradeCIDRs:\n${lines}`];
    }),
  );
}

/** The policy of so many CIDRs, and link-local. */
export function manyPolicy(count: number): Policy {
  const text = manyPrefixes(count)
    .map((prefix) => `  - ${prefix}\n`)
    .join('');
  return policyOf(
    'IPv4',
    { 'ip-masq-a': `nonMasqueradeCIDRs:${count === 0 ? ' []\n' : `\n${text}`}` },
    {
      cidrLimit: count,
    },
  );
}
