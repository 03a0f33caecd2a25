import { type DiffLine, diffOf } from '../../../lib/dataplane/diff.ts';
import { printable } from '../../../lib/text/escape.ts';
import { formatOrigin } from '../../../lib/text/origin.ts';
import { counted } from '../../../lib/text/words.ts';
import type { Preview } from '../preview.ts';

/** How many unchanged rules are shown on each side of a changed one. */
const CONTEXT = 3;

const SIGN = { kept: ' ', added: '+', removed: '-' } as const;
const COLOUR = { kept: '', added: '\x1b[32m', removed: '\x1b[31m' } as const;
const RESET = '\x1b[0m';

/** What a sync would change, as a unified diff for people; each rule names the place that asks for it. */
export function diffText(
  dataplane: string,
  previews: readonly Preview[],
  { colour }: { readonly colour: boolean },
): string {
  const lines = previews.flatMap(({ family, plan, unreadable }) => {
    if (unreadable !== undefined)
      return [
        `${family}: cannot look for leftovers of an earlier run: ${unreadable.message}; ${unreadable.remedy}`,
      ];
    if (plan === undefined) return [`${family}, ${dataplane}: nothing to change`];
    return [
      `${family}, ${dataplane}: ${plan.found.join(', ')}`,
      ...shorten(diffOf(plan)).map((line) => show(line, colour)),
    ];
  });
  return `${lines.join('\n')}\n`;
}

type Shown = DiffLine | { readonly change: 'skipped'; readonly count: number };

/** Leaves out unchanged rules that are far from a changed one. */
function shorten(lines: readonly DiffLine[]): readonly Shown[] {
  const near = new Set<number>();
  for (const [index, { change }] of lines.entries()) {
    if (change === 'kept') continue;
    for (let other = index - CONTEXT; other <= index + CONTEXT; other += 1) near.add(other);
  }
  const shown: Shown[] = [];
  let count = 0;
  for (const [index, line] of lines.entries()) {
    if (!near.has(index)) count += 1;
    if (count > 0 && (near.has(index) || index === lines.length - 1)) {
      shown.push({ change: 'skipped', count });
      count = 0;
    }
    if (near.has(index)) shown.push(line);
  }
  return shown;
}

function show(line: Shown, colour: boolean): string {
  if (line.change === 'skipped')
    return `  … ${counted(line.count, 'rule')} that stay${line.count === 1 ? 's' : ''}`;
  const { text, entry } = line.rule;
  const plain = printable(
    `${SIGN[line.change]} ${text}${entry === undefined ? '' : `  # ${formatOrigin(entry.origin)}`}`,
  );
  return colour && line.change !== 'kept' ? `${COLOUR[line.change]}${plain}${RESET}` : plain;
}
