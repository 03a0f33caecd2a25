import { formatRange } from '../../../lib/cidr/ranges.ts';
import type { PlannedRule } from '../../../lib/dataplane/dataplane.ts';
import { changesBetween } from '../../../lib/policy/changes.ts';
import { fatesOf } from '../../../lib/policy/fates.ts';
import { placeValue } from '../../../lib/report/json.ts';
import { type Difference, differs } from './difference.ts';

/** What a sync would change in one family as plain values, for programs. */
export function differenceJson(difference: Difference): object {
  const { preview, leftovers, stays, unread, now } = difference;
  const { dataplane, family, plan } = preview;
  return {
    family,
    dataplane: dataplane.name,
    differs: differs(difference),
    found: plan?.found ?? [],
    added: (plan?.added ?? []).map(ruleJson),
    removed: (plan?.removed ?? []).map(ruleJson),
    kept: plan?.kept ?? null,
    leftovers: leftovers.map((one) => ({ dataplane: one.dataplane.name, rules: one.rules })),
    stays,
    unread: unread.map((one) => ({ dataplane: one.dataplane.name, message: one.error.message })),
    state: now?.state ?? null,
    verdicts: verdictsJson(difference),
  };
}

function ruleJson({ text, entry }: PlannedRule): object {
  return { text, origin: placeValue(entry?.origin) };
}

/** The ranges whose verdict changes. If there was no chain, or no jump to it, nothing was masqueraded before. */
function verdictsJson({ preview: { family, policy }, now }: Difference): readonly object[] {
  if (policy === undefined || now?.state !== 'applied') return [];
  return changesBetween(now, fatesOf(policy)).map(({ before, after, ...range }) => ({
    range: formatRange(family, range),
    before: before.verdict ?? null,
    after: after.verdict ?? null,
    rule: before.rule ?? null,
  }));
}
