import type { Paint } from '../../../lib/text/colour.ts';
import { printable } from '../../../lib/text/escape.ts';
import { counted, few, fewInSentence } from '../../../lib/text/words.ts';

/** What is known of a node. */
export interface Report {
  readonly node: string;
  readonly code: number;
  readonly lines: readonly string[];
  /** Equal in nodes of one group. */
  readonly key: string;
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
  return `${texts.join('')}${counted(sorted.length, 'group')}: ${sum}\n`;
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

export function worst(reports: readonly Report[]): number {
  return reports.reduce((most, { code }) => Math.max(most, code), 0);
}
