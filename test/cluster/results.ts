import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Families, ProxyMode } from './local/options.ts';
import { FAMILIES } from './local/parameters.ts';

export type Outcome = 'passed' | 'failed' | 'skipped';

/** What one cluster of the tests' own was, and what the last runs in one like it have shown. */
export interface ClusterResult {
  readonly proxyMode: ProxyMode;
  readonly families: Families;
  /** Versions as the nodes report them. */
  readonly kubernetes: string;
  readonly kernel: string;
  readonly runtime: string;
  /** The outcome of each test, by scenario and title. */
  readonly scenarios: Readonly<Record<string, Readonly<Record<string, Outcome>>>>;
}

/** The tables of results.md are made from it. */
const FILE = fileURLToPath(new URL('results.json', import.meta.url));

export function readResults(): readonly ClusterResult[] {
  return JSON.parse(readFileSync(FILE, 'utf8'));
}

export function writeResults(results: readonly ClusterResult[]): void {
  writeFileSync(FILE, `${JSON.stringify(results, undefined, 2)}\n`);
}

/**
 * The results with those of a run in them: they take the place of the same scenarios in the same minor version of Kubernetes,
 * kube-proxy mode and IP families. If a version differs, all earlier results of that cluster go: nothing was seen with these
 * versions together.
 *
 * @param existing the scenarios that there are; results of others go
 */
export function withRun(
  results: readonly ClusterResult[],
  run: ClusterResult,
  existing: readonly string[],
): readonly ClusterResult[] {
  const earlier = results.find(
    (one) => clusterOf(one) === clusterOf(run) && versionsOf(one) === versionsOf(run),
  );
  const scenarios = Object.entries({ ...earlier?.scenarios, ...run.scenarios })
    .filter(([name]) => existing.includes(name))
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
  const all = [
    ...results.filter((one) => clusterOf(one) !== clusterOf(run)),
    { ...run, scenarios: Object.fromEntries(scenarios) },
  ];
  return all.toSorted(
    (one, other) => minorOf(other) - minorOf(one) || (clusterOf(one) < clusterOf(other) ? -1 : 1),
  );
}

function versionsOf({ kubernetes, kernel, runtime }: ClusterResult): string {
  return [kubernetes, kernel, runtime].join();
}

function clusterOf({ kubernetes, proxyMode, families }: ClusterResult): string {
  return `${minorOf({ kubernetes })} ${proxyMode} ${FAMILIES.indexOf(families)}`;
}

/** Of 1.37.2, the 37. */
function minorOf({ kubernetes }: Pick<ClusterResult, 'kubernetes'>): number {
  return Number(kubernetes.split('.')[1]);
}
