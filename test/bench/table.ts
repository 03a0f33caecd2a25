import type { Result, Verdict } from './row.ts';

const HEAD = ['', 'median', 'p95', 'samples', 'ratio', 'target'];

/** The results as text: a heading for each group, and below it a line for each row. */
export function table(results: readonly Result[]): string {
  const groups = [...new Set(results.map(({ group }) => group))];
  const lines = groups.flatMap((group) => [
    [group],
    ...results.filter((result) => result.group === group).map(cells),
  ]);
  const widths = HEAD.map((_, column) =>
    Math.max(...[HEAD, ...lines.filter(({ length }) => length > 1)].map((line) => line[column]?.length ?? 0)),
  );
  return [HEAD, ...lines]
    .map((line) => {
      const text = line.map((cell, column) => cell.padEnd(line.length > 1 ? (widths[column] ?? 0) : 0));
      return `${line.length > 1 ? '' : '\n'}${text.join('  ').trimEnd()}`;
    })
    .join('\n');
}

function cells(result: Result): readonly string[] {
  const { name, unit, samples, baseline, ratio } = result;
  const quantity = (value: number) => `${number(value)} ${unit}`.trimEnd();
  return [
    `  ${name}`,
    quantity(result.median),
    samples.length > 1 ? quantity(result.p95) : '',
    `${samples.length}`,
    ratio === undefined || !Number.isFinite(ratio) ? '' : `${number(ratio)} × ${baseline}`,
    result.verdicts.map((verdict) => verdictText(verdict, unit)).join('; '),
  ];
}

function verdictText({ text, limit, isMet }: Verdict, unit: string): string {
  const exact = `${number(limit)} ${unit}`;
  return `${isMet ? 'met' : 'NOT MET'}: ${text}${text.endsWith(exact) ? '' : ` = ${exact}`}`;
}

/** As many digits as mean something. */
function number(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Number.isInteger(value)) return `${value}`;
  return value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}
