import { styleText } from 'node:util';

let steps = 0;

/** Begins a numbered step. */
export function step(title: string): void {
  steps += 1;
  process.stdout.write(`\n${styleText('bold', `${steps}. ${title}`)}\n`);
}

/** Prints lines below the step. */
export function say(...lines: readonly string[]): void {
  for (const line of lines) process.stdout.write(`   ${line}\n`);
}

/** Prints what a program said or holds. */
export function quote(lines: readonly string[]): void {
  for (const line of lines) process.stdout.write(`     ${styleText('cyan', line)}\n`);
}

/** Prints rows in columns. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((_, column) =>
    Math.max(...[head, ...rows].map((row) => (row[column] ?? '').length)),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  say(styleText('dim', line(head)));
  for (const row of rows) say(line(row));
}

const checks: boolean[] = [];

/** Prints whether what the demo claims is so. */
export function check(claim: string, holds: boolean): void {
  checks.push(holds);
  say(`${holds ? styleText('green', 'ok') : styleText('red', 'NOT SO')}  ${claim}`);
}

/** Prints whether every claim was so, and returns it. */
export function result(): boolean {
  const isGood = checks.every(Boolean);
  const verdict = isGood
    ? styleText('green', `all ${checks.length} claims checked`)
    : styleText('red', 'not everything was as claimed');
  process.stdout.write(`\n${verdict}; the machine's own rules were never touched\n`);
  return isGood;
}
