// Runs the scenarios one after the other: they share the kernel of the nodes. Without KUBECONFIG it brings up a cluster of its own.
// In the environment: SCENARIOS=1,2,9 (all, if absent), PROXY_MODE, FAMILIES, MATRIX=all for every mode, with IPv4 and with both families, and
// BAIL=yes to end after the first scenario that fails, RECORD=yes to write what was seen to the documentation.
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { run as runTests } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';
import { writeGenerated } from '../../build/docs.ts';
import { clusterFromEnvironment } from './lab/cluster.ts';
import { type AgentImage, agentImage } from './lab/image.ts';
import { kubectlFor } from './lab/kubectl.ts';
import type { List, Node } from './lab/objects.ts';
import { oldAgentImage } from './lab/old-image.ts';
import { removeProbes } from './lab/probes.ts';
import { buildPrograms } from './local/build.ts';
import { startCluster } from './local/cluster.ts';
import { e2eImage } from './local/e2e.ts';
import { CLUSTER_BIN, type ClusterOptions, type Image } from './local/options.ts';
import { FAMILIES, PROXY_MODES, parametersFrom } from './local/parameters.ts';
import { type ClusterResult, type Outcome, readResults, withRun, writeResults } from './results.ts';

type Parameters = Pick<ClusterOptions, 'proxyMode' | 'families'>;

interface Row {
  readonly cluster: string;
  readonly scenario: string;
  readonly outcome: Outcome;
  /** The outcome of each test by its title. */
  readonly tests: Readonly<Record<string, Outcome>>;
  readonly seconds: number;
}

const SCENARIOS = fileURLToPath(new URL('scenarios', import.meta.url));
/** The scenario that needs an image to upgrade from. */
const UPGRADE = '08-upgrade';
/** Kubernetes' own tests, with an image of their pods. They take long, and run only if they are named or with MATRIX=all. */
const E2E = '15-kubernetes-e2e';
const MINUTES_MS = 60_000;

// Scenarios share their probes, which take seconds to start.
process.env['CLUSTER_KEEP_PROBES'] = 'yes';

try {
  const rows = await (process.env['KUBECONFIG'] ? inGivenCluster() : inOwnClusters());
  print(rows);
  if (rows.some(({ outcome }) => outcome === 'failed')) process.exitCode = 1;
} catch (error) {
  console.error(`test-cluster: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
}

async function inGivenCluster(): Promise<readonly Row[]> {
  try {
    return await runFiles(process.env['KUBECONFIG'] ?? '', await scenarioFiles());
  } finally {
    await removeProbes(clusterFromEnvironment());
  }
}

async function inOwnClusters(): Promise<readonly Row[]> {
  const files = await scenarioFiles();
  await buildPrograms(console.log);
  const images: Image[] = [await agentImage(), ...(await oldImages(files))];
  if (files.some((file) => nameOf(file) === E2E)) images.push(await e2eImage(console.log));
  const rows: Row[] = [];
  for (const parameters of chosen()) {
    const label = `kube-proxy ${parameters.proxyMode}, ${parameters.families}`;
    const start = performance.now();
    await using cluster = await startCluster({
      directory: join(CLUSTER_BIN, 'test'),
      images,
      ...parameters,
    });
    Object.assign(process.env, cluster.env);
    console.log(`\na cluster with ${label}: up after ${seconds(start)} s`);
    const found = await runFiles(label, files);
    rows.push(...found);
    if (process.env['RECORD']) await record(parameters, found);
  }
  return rows;
}

/** Writes to results.json and the documentation what was seen. */
async function record(parameters: Parameters, rows: readonly Row[]): Promise<void> {
  const { items } = await kubectlFor(clusterFromEnvironment(), 'default').get<List<Node>>('nodes');
  const { nodeInfo } = items[0]?.status ?? assert.fail('a cluster has nodes');
  const run: ClusterResult = {
    ...parameters,
    kubernetes: nodeInfo.kubeletVersion,
    // Without what its builder has added.
    kernel: nodeInfo.kernelVersion.replace(/[^\d.].*/, ''),
    runtime: nodeInfo.containerRuntimeVersion.replace('://', ' '),
    scenarios: Object.fromEntries(rows.map(({ scenario, tests }) => [scenario, tests])),
  };
  const existing = (await readdir(SCENARIOS)).map(nameOf);
  writeResults(withRun(readResults(), run, existing));
  writeGenerated();
}

/** The image to upgrade from, if a scenario needs it. Without it, upgrades are skipped. */
async function oldImages(files: readonly string[]): Promise<readonly AgentImage[]> {
  if (!files.some((file) => nameOf(file) === UPGRADE)) return [];
  const image = await oldAgentImage();
  if (image === undefined) return [];
  process.env['CLUSTER_OLD_IMAGE'] = image.name;
  return [image];
}

function chosen(): readonly Parameters[] {
  const matrix = process.env['MATRIX'] || 'one';
  if (matrix === 'one') return [parametersFrom(process.env)];
  if (matrix !== 'all') throw new Error(`MATRIX=${matrix} is unknown: set all, or nothing`);
  // Of the scenarios, 1, 2, 3 and 9 know a cluster of IPv6 alone.
  const all = FAMILIES.filter((families) => families !== 'ipv6');
  return PROXY_MODES.flatMap((proxyMode) => all.map((families) => ({ proxyMode, families })));
}

/** Files are named by the numbers of their scenarios: `09-foreign-flush.test.ts`. */
async function scenarioFiles(): Promise<readonly string[]> {
  const all = (await readdir(SCENARIOS)).filter((name) => name.endsWith('.test.ts')).toSorted();
  const numberOf = (name: string): number => Number.parseInt(name, 10);
  const wanted = process.env['SCENARIOS'];
  if (!wanted) {
    const chosen = all.filter((name) => nameOf(name) !== E2E || process.env['MATRIX'] === 'all');
    return chosen.map((name) => join(SCENARIOS, name));
  }
  const numbers = wanted.split(',').map(Number);
  const unknown = numbers.filter((number) => !all.some((name) => numberOf(name) === number));
  if (unknown.length > 0)
    throw new Error(
      `SCENARIOS=${wanted}: there is none for ${unknown.join(', ')}; there are ${all.join(', ')}`,
    );
  return all.filter((name) => numbers.includes(numberOf(name))).map((name) => join(SCENARIOS, name));
}

async function runFiles(cluster: string, files: readonly string[]): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const file of files) {
    const start = performance.now();
    const tests = await runFile(file);
    const outcome = outcomeOf(Object.values(tests));
    rows.push({ cluster, scenario: nameOf(file), outcome, tests, seconds: seconds(start) });
    if (outcome === 'failed' && process.env['BAIL']) break;
  }
  return rows;
}

/** Returns the outcome of each test of a file. */
async function runFile(file: string): Promise<Row['tests']> {
  const stream = runTests({ files: [file], concurrency: 1, timeout: 60 * MINUTES_MS });
  const tests: Record<string, Outcome> = {};
  stream.on('test:fail', ({ name, nesting }) => {
    // A file that ends without a test is a test of its path.
    if (nesting === 0) tests[name.endsWith(basename(file)) ? nameOf(file) : name] = 'failed';
  });
  stream.on('test:pass', ({ name, nesting, skip }) => {
    if (nesting === 0) tests[name] = skip === undefined ? 'passed' : 'skipped';
  });
  // The process's own output stays open for the next file.
  for await (const text of stream.compose(new spec())) process.stdout.write(text);
  return tests;
}

/** Skipped is what has no test that ran. */
function outcomeOf(tests: readonly Outcome[]): Outcome {
  if (tests.includes('failed')) return 'failed';
  return tests.includes('passed') ? 'passed' : 'skipped';
}

function print(rows: readonly Row[]): void {
  console.log(`\n${'cluster'.padEnd(28)}${'scenario'.padEnd(24)}${'outcome'.padEnd(10)}seconds`);
  for (const { cluster, scenario, outcome, seconds } of rows)
    console.log(`${cluster.padEnd(28)}${scenario.padEnd(24)}${outcome.padEnd(10)}${seconds}`);
}

function nameOf(file: string): string {
  return file.slice(file.lastIndexOf('/') + 1).replace('.test.ts', '');
}

function seconds(start: number): number {
  return Math.round((performance.now() - start) / 1000);
}
