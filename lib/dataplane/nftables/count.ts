import type { Policy } from '../../policy/policy.ts';
import type { RuleCount } from '../dataplane.ts';
import type { ListedTable, NftablesObservation } from './observe.ts';
import type { NftablesOptions } from './options.ts';
import { renderTable } from './table.ts';

/**
 * What each element has counted, and what was masqueraded. Exceptions have no element: what they hold is counted with
 * the rest that is masqueraded.
 */
export function countTable(
  { table }: NftablesObservation<ListedTable>,
  policy: Policy,
  options: NftablesOptions,
): readonly RuleCount[] {
  if (table?.isOurs !== true) return [];
  const wanted = renderTable(policy, options);
  const elements = Array.from(table.elements, ([text, count]): readonly RuleCount[] => {
    const entry = wanted.elements.get(text);
    return entry === undefined ? [] : [{ rule: text, entry, verdict: 'return', ...count }];
  });
  const masquerade = Array.from(table.counts, ([line, count]) => ({
    rule: table.shape[line] ?? '',
    entry: undefined,
    verdict: 'masquerade' as const,
    ...count,
  }));
  return [...elements.flat(), ...masquerade];
}
