import type { Policy } from '../../policy/policy.ts';
import type { IptablesOptions } from './options.ts';
import { plan } from './plan.ts';

/** Rules behind these are for one of iptables-restore and ip6tables-restore, and passed over by the other; see iptables(8). */
const ONLY = { IPv4: '-4', IPv6: '-6' } as const;
const TOOL = { IPv4: 'iptables-restore', IPv6: 'ip6tables-restore' } as const;

/**
 * What iptables-restore reads to make chain and jump on a node that has neither. With policies of both families the
 * same text is for ip6tables-restore too.
 */
export function renderTransaction(policies: readonly Policy[], options: IptablesOptions): string {
  const scripts = policies.map((policy) => {
    const nothing = { family: policy.family, rules: undefined, jumps: [] };
    return { family: policy.family, lines: (plan(nothing, policy, options)?.script ?? '').split('\n') };
  });
  const both = scripts.length > 1;
  const rules = scripts.flatMap(({ family, lines }) =>
    lines.filter((line) => line.startsWith('-')).map((line) => (both ? `${ONLY[family]} ${line}` : line)),
  );
  const tools = scripts.map(({ family }) => `${TOOL[family]} --noflush`).join(' and ');
  return [
    `# Input of ${tools}; without --noflush all other rules of nat would go.`,
    '*nat',
    `:${options.chain} - [0:0]`,
    ...rules,
    'COMMIT',
    '',
  ].join('\n');
}
