import {
  type FoundRules,
  type RuleLocationState,
  survey,
  type UnreadableRuleLocation,
} from '../../lib/agent/rule-locations.ts';
import { configHash } from '../../lib/config/config-hash.ts';
import { ruleLocationName } from '../../lib/dataplane/dataplane.ts';
import { type DiffLine, diffOf } from '../../lib/dataplane/diff.ts';
import { describeKernelChange } from '../../lib/dataplane/kernel-verdicts.ts';
import { type Preview, preview } from '../../lib/doctor/preview.ts';
import { CONNECTIONS_LINE, verdictLines } from '../../lib/policy/changes.ts';
import { adviceText } from '../../lib/text/advice.ts';
import type { Paint } from '../../lib/text/colour.ts';
import { printable } from '../../lib/text/escape.ts';
import { formatOrigin } from '../../lib/text/origin.ts';
import { counted } from '../../lib/text/words.ts';
import type { Args } from './command.ts';
import type { DIFF_FLAGS } from './command-flags.ts';
import { differenceJson, differenceOf, differs, type FamilyDifference, placeJson } from './difference.ts';
import { EXIT } from './exit.ts';
import { keptFamilies, nodeAccess } from './from-flags.ts';
import { printResult } from './print.ts';
import { errorJson, orInvalid, readConfig } from './read-config.ts';

export async function diff({ flags }: Args<typeof DIFF_FLAGS>): Promise<number> {
  const format = flags.output;
  const { config, error } = await orInvalid(readConfig(flags, { forPeople: format === 'text' }));
  const places = await survey(nodeAccess(flags));
  if (config === undefined) {
    const states = [...places.used, ...places.others];
    const json = { hash: null, families: [], places: states.map(placeJson), ...errorJson(error) };
    printResult(format, EXIT.config, json, () => placesText(states));
    throw error;
  }
  const differences = places.used.map((place) =>
    differenceOf(preview(place, config, keptFamilies(flags)), places.others),
  );
  const code = differences.some(differs) ? EXIT.different : EXIT.ok;
  const json = { hash: configHash(config), families: differences.map(differenceJson) };
  return printResult(format, code, json, (paint) => diffText(differences, paint));
}

/** How many unchanged rules are shown on each side of a changed one. */
const CONTEXT = 3;

const SIGN = { kept: ' ', added: '+', removed: '-' } as const;

/**
 * What a sync would change, for people: the rules as a unified diff, each with the origin that asks for it, then what
 * happens to packets.
 */
function diffText(differences: readonly FamilyDifference[], paint: Paint): string {
  const verdicts = differences.map(verdictText);
  const lines = differences.flatMap(({ preview, leftovers, stays, unread }, index) => [
    ...(preview.unreadable === undefined ? rulesText(preview, paint) : []),
    ...stays.map((text) => printable(`${ruleLocationName(preview)}: ${text}`)),
    ...unread.map(unreadText),
    ...leftovers.map(leftoverText),
    ...(verdicts[index] ?? []),
  ]);
  // Lines of ranges follow the first one.
  const changes = verdicts.some(({ length }) => length > 1);
  return [...lines, ...(changes ? [CONNECTIONS_LINE] : []), ''].join('\n');
}

function placesText(states: readonly RuleLocationState[]): string {
  const lines = states.flatMap((one) => [
    `${ruleLocationName(one)}: ${contentText(one)}`,
    ...(one.kind === 'found' ? one.rules.map((rule) => printable(`  ${rule}`)) : []),
  ]);
  return [...lines, ''].join('\n');
}

function contentText(state: RuleLocationState): string {
  switch (state.kind) {
    case 'found': {
      const leads = state.observed.verdicts().state === 'applied' ? '' : ', to which nothing leads packets';
      return `${counted(state.rules.length, 'rule')} of the agent${leads}`;
    }
    case 'unreadable':
      return `cannot be read: ${adviceText(state.error)}`;
    default:
      return 'no rules of the agent';
  }
}

function rulesText(preview: Preview, paint: Paint): readonly string[] {
  const { plan } = preview;
  if (plan === undefined) return [`${ruleLocationName(preview)}: nothing to change`];
  return [
    `${ruleLocationName(preview)}: ${plan.found.join(', ')}`,
    ...shorten(diffOf(plan)).map((line) => show(line, paint)),
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

type Shown = DiffLine | { readonly change: 'skipped'; count: number };

/** Leaves out unchanged rules that are far from a changed one. */
function shorten(lines: readonly DiffLine[]): readonly Shown[] {
  const isChanged = ({ change }: DiffLine) => change !== 'kept';
  const shown: Shown[] = [];
  for (const [index, line] of lines.entries()) {
    const isNear = lines.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(isChanged);
    const before = shown.at(-1);
    if (isNear) shown.push(line);
    else if (before?.change === 'skipped') before.count += 1;
    else shown.push({ change: 'skipped', count: 1 });
  }
  return shown;
}

function show(line: Shown, paint: Paint): string {
  if (line.change === 'skipped')
    return `  … ${counted(line.count, 'rule')} that stay${line.count === 1 ? 's' : ''}`;
  const { text, entry } = line.rule;
  const plain = printable(
    `${SIGN[line.change]} ${text}${entry === undefined ? '' : `  # ${formatOrigin(entry.origin)}`}`,
  );
  if (line.change === 'kept') return plain;
  return paint(line.change === 'added' ? 'green' : 'red', plain);
}
