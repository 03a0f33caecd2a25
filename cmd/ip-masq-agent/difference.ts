import type {
  FoundRules,
  RuleLocationState,
  UnreadableRuleLocation,
} from '../../lib/agent/rule-locations.ts';
import { formatRange } from '../../lib/cidr/ranges.ts';
import type { KernelVerdicts, PlannedRule } from '../../lib/dataplane/dataplane.ts';
import { together } from '../../lib/dataplane/kernel-verdicts.ts';
import type { Preview } from '../../lib/doctor/preview.ts';
import { changesBetween } from '../../lib/policy/changes.ts';
import { verdictsOf } from '../../lib/policy/verdicts.ts';
import { locationOf } from '../../lib/report/json.ts';

/** What a sync would change in one family. */
export interface FamilyDifference {
  /** In the dataplane that is used. */
  readonly preview: Preview;
  /** Rules of the agent, or of ip-masq-agent v1 or v2, in the places that are not used: a start removes them. */
  readonly leftovers: readonly FoundRules[];
  /** Empty chains that cannot be deleted, in words. */
  readonly stays: readonly string[];
  readonly unread: readonly UnreadableRuleLocation[];
  /** What all these rules do with packets now; undefined if nothing changes in the kernel, or it cannot be read. */
  readonly now: KernelVerdicts | undefined;
}

export function differs({ preview, leftovers }: Pick<FamilyDifference, 'preview' | 'leftovers'>): boolean {
  return preview.plan !== undefined || leftovers.length > 0;
}

export function differenceOf(preview: Preview, elsewhere: readonly RuleLocationState[]): FamilyDifference {
  const { family, observed, policy, unreadable } = preview;
  const others = elsewhere.filter((one) => one.family === family);
  const leftovers = others.filter((one) => one.kind === 'found');
  return {
    preview,
    leftovers,
    stays: observed?.describeUndeletable(policy) ?? [],
    unread: [...(unreadable ? [unreadable] : []), ...others.filter((one) => one.kind === 'unreadable')],
    now:
      observed && differs({ preview, leftovers })
        ? leftovers.map((one) => one.observed.verdicts()).reduce(together, observed.verdicts())
        : undefined,
  };
}

export function differenceJson(difference: FamilyDifference) {
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

export function placeJson(state: RuleLocationState) {
  const { dataplane, family, kind } = state;
  return {
    family,
    dataplane: dataplane.name,
    state: 'observed' in state ? state.observed.verdicts().state : null,
    rules: kind === 'found' ? state.rules : [],
    message: kind === 'unreadable' ? state.error.message : null,
  };
}

function ruleJson({ text, entry }: PlannedRule) {
  return { text, origin: locationOf(entry?.origin) };
}

/** The ranges whose verdict changes. If there was no chain, or no jump to it, nothing was masqueraded before. */
function verdictsJson({ preview: { family, policy }, now }: FamilyDifference) {
  if (policy === undefined || now?.state !== 'applied') return [];
  return changesBetween(now, verdictsOf(policy)).map(({ before, after, ...range }) => ({
    range: formatRange(family, range),
    before: before.verdict ?? null,
    after: after.verdict ?? null,
    rule: before.kernelRule ?? null,
  }));
}
