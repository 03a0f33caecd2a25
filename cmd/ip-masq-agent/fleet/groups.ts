import type { Paint } from '../../../lib/text/colour.ts';
import { printable } from '../../../lib/text/escape.ts';
import { counted, few, fewInSentence } from '../../../lib/text/words.ts';

/** What is known of a node. */
export interface Report {
  readonly node: string;
  /** The exit code that it leads to. */
  readonly code: number;
  readonly lines: readonly string[];
  /** Equal in nodes of one group. */
  readonly key: string;
  readonly unseen: readonly string[];
}

/** How many nodes of a group are named, and how much of what they say is shown. */
const MOST_NAMES = 5;
const MOST_LINES = 12;
const LONGEST_LINE = 500;

/** The nodes in groups of those that say the same, the smallest first, and the sum of them. */
export function groupsText(reports: readonly Report[], paint: Paint): string {
  // Map.groupBy needs Node.js 21.
  const groups = new Map<string, Report[]>();
  for (const report of reports) {
    const group = groups.get(report.key);
    if (group === undefined) groups.set(report.key, [report]);
    else group.push(report);
  }
  const sorted = [...groups.values()].toSorted(
    (one, other) => one.length - other.length || worst(other) - worst(one),
  );
  const sum = `${sorted.map(({ length }) => length).join(' + ')} = ${counted(reports.length, 'node')}`;
  const texts = sorted.map((group) => `${groupText(group, paint)}\n`);
  const notes = notesOf(reports).map((note) => `${shown(note)}\n\n`);
  return [...texts, ...notes, `${counted(sorted.length, 'group')}: ${sum}\n`].join('');
}

/** What concerns several groups. */
function notesOf(reports: readonly Report[]): readonly string[] {
  const blind = reports.filter(({ unseen }) => unseen.length > 0);
  const addresses = [...new Set(blind.flatMap(({ unseen }) => unseen))];
  return blind.length === 0
    ? []
    : [
        `conntrack of ${counted(blind.length, 'node')} shows no connection to ${fewInSentence(addresses, MOST_NAMES, String)}. The address of a Service does not decide, but that of its endpoint: ask for that (kubectl get endpointslices -A)`,
      ];
}

function groupText(group: readonly Report[], paint: Paint): string {
  const names = fewInSentence(group, MOST_NAMES, ({ node }) => printable(node));
  const colour = worst(group) === 0 ? 'green' : 'yellow';
  const [{ node, lines } = { node: '', lines: [] }] = group;
  const isEqual = group.every((one) => one.lines.join('\n') === lines.join('\n'));
  return [
    `${paint(colour, counted(group.length, 'node'))}: ${names}`,
    ...few(
      lines,
      MOST_LINES,
      (line) => `  ${shown(line)}`,
      (more) => `  … and ${more} more lines`,
    ),
    ...(isEqual ? [] : [`  (so says ${printable(node)}; the details of the others differ)`]),
    '',
  ].join('\n');
}

function shown(line: string): string {
  return printable(line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line);
}

/** The highest exit code. */
export function worst(reports: readonly Report[]): number {
  return reports.reduce((most, { code }) => Math.max(most, code), 0);
}
