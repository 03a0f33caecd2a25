import {
  type FoundRules,
  type RuleLocationState,
  survey,
  type UnreadableRuleLocation,
} from '../../lib/agent/rule-locations.ts';
import { type KernelVerdicts, ruleLocationName } from '../../lib/dataplane/dataplane.ts';
import { type DiffLine, diffOf } from '../../lib/dataplane/diff.ts';
import { describeKernelChange, together } from '../../lib/dataplane/kernel-verdicts.ts';
import { type Preview, preview } from '../../lib/doctor/preview.ts';
import { CONNECTIONS_LINE, verdictLines } from '../../lib/policy/changes.ts';
import { adviceText } from '../../lib/text/advice.ts';
import { type Paint, painter } from '../../lib/text/colour.ts';
import { printable } from '../../lib/text/escape.ts';
import { formatOrigin } from '../../lib/text/origin.ts';
import { counted } from '../../lib/text/words.ts';
import type { Args } from './command.ts';
import type { INPUT_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import { keptFamilies, nodeAccess } from './from-flags.ts';
import { print, STDOUT, wantsColour } from './print.ts';
import { orInvalid, readConfig } from './read-config.ts';

export async function diff({ flags }: Args<typeof INPUT_FLAGS>): Promise<number> {
  const { config, error } = await orInvalid(readConfig(flags, { forPeople: true }));
  if (config === undefined) {
    print(
      'the config is invalid, so that no change is known; ip-masq-agent explain --live ADDRESS shows what happens now\n',
    );
    throw error;
  }
  const { used, others } = await survey(nodeAccess(flags));
  const differences = used.map((place) => differenceOf(preview(place, config, keptFamilies(flags)), others));
  print(diffText(differences, painter(wantsColour(STDOUT))));
  return differences.some(({ differs }) => differs) ? EXIT.different : EXIT.ok;
}

/** What a sync would change in one family. */
interface FamilyDifference {
  /** In the dataplane that is used. */
  readonly preview: Preview;
  /** Rules of the agent, or of ip-masq-agent v1 or v2, in the places that are not used: a start removes them. */
  readonly leftovers: readonly FoundRules[];
  readonly unread: readonly UnreadableRuleLocation[];
  readonly differs: boolean;
  /** What all these rules do with packets now; undefined if nothing changes in the kernel, or it cannot be read. */
  readonly now: KernelVerdicts | undefined;
}

function differenceOf(preview: Preview, elsewhere: readonly RuleLocationState[]): FamilyDifference {
  const { family, observed, unreadable } = preview;
  const others = elsewhere.filter((one) => one.family === family);
  const leftovers = others.filter((one) => one.kind === 'found');
  const differs = preview.plan !== undefined || leftovers.length > 0;
  const verdicts = leftovers.map((one) => one.observed.verdicts());
  return {
    preview,
    leftovers,
    unread: [...(unreadable ? [unreadable] : []), ...others.filter((one) => one.kind === 'unreadable')],
    differs,
    now: observed && differs ? verdicts.reduce(together, observed.verdicts()) : undefined,
  };
}

const SIGN = { kept: ' ', added: '+', removed: '-' } as const;

/** What a sync would change: the rules, each with the origin that asks for it, then what happens to packets. */
function diffText(differences: readonly FamilyDifference[], paint: Paint): string {
  const verdicts = differences.map(verdictText);
  const lines = differences.flatMap(({ preview, leftovers, unread }, index) => [
    ...(preview.unreadable === undefined ? rulesText(preview, paint) : []),
    ...(preview.observed?.describeUndeletable(preview.policy) ?? []).map((text) =>
      printable(`${ruleLocationName(preview)}: ${text}`),
    ),
    ...unread.map(unreadText),
    ...leftovers.map(leftoverText),
    ...(verdicts[index] ?? []),
  ]);
  // Lines of ranges follow the first one.
  const changes = verdicts.some(({ length }) => length > 1);
  return [...lines, ...(changes ? [CONNECTIONS_LINE] : []), ''].join('\n');
}

function rulesText(preview: Preview, paint: Paint): readonly string[] {
  const { plan, policy } = preview;
  if (plan === undefined)
    return policy === undefined ? [] : [`${ruleLocationName(preview)}: nothing to change`];
  const changed = diffOf(plan).filter(({ change }) => change !== 'kept');
  return [
    `${ruleLocationName(preview)}: ${plan.found.join(', ')}`,
    ...changed.map((line) => lineText(line, paint)),
  ];
}

function leftoverText(place: FoundRules): string {
  return `${ruleLocationName(place)}: a start removes ${counted(place.rules.length, 'rule')} of an earlier run`;
}

function unreadText(place: UnreadableRuleLocation): string {
  return `${ruleLocationName(place)}: cannot find leftovers of an earlier run: ${adviceText(place.error)}`;
}

/** What happens to packets; nothing if nothing changes in the kernel. */
function verdictText({ preview: { family, policy }, now }: FamilyDifference): readonly string[] {
  if (now === undefined) return [];
  if (policy === undefined) return [`${family}: after a sync the agent masquerades nothing`];
  switch (now.state) {
    case 'no chain':
      return [`${family}: the agent masquerades nothing now, because its chain does not exist`];
    case 'no jump':
      return [`${family}: the agent masquerades nothing now, because nothing leads packets to its chain`];
    case 'applied':
      return verdictLines(family, describeKernelChange(now, policy));
  }
}

function lineText({ change, rule: { text, entry } }: DiffLine, paint: Paint): string {
  const origin = entry === undefined ? '' : `  # ${formatOrigin(entry.origin)}`;
  return paint(change === 'added' ? 'green' : 'red', printable(`${SIGN[change]} ${text}${origin}`));
}
