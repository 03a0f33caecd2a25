import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** `refused`: the dataplane is not there, and the agent ends and says what the kernel lacks. */
export type Outcome = 'passed' | 'failed' | 'refused';

/** What the last run in a machine has shown. */
export interface KernelResult {
  readonly name: string;
  readonly title: string;
  /** The version of Debian's package. */
  readonly version: string;
  /** By the titles of checks. */
  readonly checks: Readonly<Record<string, Outcome>>;
  /** What the agent says of each dataplane that is not there. */
  readonly refusals: Readonly<Record<string, string>>;
}

/** The tables of results.md are made from it. */
const FILE = fileURLToPath(new URL('results.json', import.meta.url));

export function readKernelResults(): readonly KernelResult[] {
  return JSON.parse(readFileSync(FILE, 'utf8'));
}

/**
 * The results with those of a run, in the order of the names. What was seen before with the same version stays if it was not
 * looked at again. Results of machines that are no more go.
 */
export function withRun(
  results: readonly KernelResult[],
  run: readonly KernelResult[],
  names: readonly string[],
): readonly KernelResult[] {
  return names.flatMap((name) => {
    const earlier = results.find((one) => one.name === name);
    const later = run.find((one) => one.name === name);
    if (later === undefined || earlier?.version !== later.version) return later ?? earlier ?? [];
    return { ...later, checks: { ...earlier.checks, ...later.checks } };
  });
}

export function writeKernelResults(results: readonly KernelResult[]): void {
  writeFileSync(FILE, `${JSON.stringify(results, undefined, 2)}\n`);
}
