import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startGroup } from '../../lab/group.ts';
import { text } from '../../lab/run.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { scenario } from '../lab/scenario.ts';
import { E2E, e2eEnvironment } from '../local/e2e.ts';

/** By parts of their names. Each of them has tests that pass here. */
const WANTED = [
  'NoSNAT',
  'Granular Checks',
  'Conntrack',
  'functioning NodePort',
  'NodePort listening',
  'session affinity',
  'external+TrafficPolicy',
] as const;
const FOCUS = new RegExp(WANTED.join('|'));
/** What is left out, and why. */
const LEFT_OUT = {
  SCTP: 'the kernel may have no SCTP',
  Slow: 'it waits for minutes',
  LoadBalancer: 'the cluster has none',
  'initial unready endpoints': 'its image is in a registry',
  'invalid conntrack state': 'its image is in a registry',
};

/** The tests end themselves first, then their process is killed, then the scenario fails: all before its file is ended. */
const MINUTE_MS = 60_000;
const [SUITE_MINUTES, PATIENCE_MS, SCENARIO_MS] = [45, 50 * MINUTE_MS, 55 * MINUTE_MS];

/** See types.SpecReport of Ginkgo. */
interface Report {
  readonly SpecReports: readonly {
    readonly ContainerHierarchyTexts: readonly string[] | null;
    readonly LeafNodeText: string;
    readonly LeafNodeType: string;
    readonly State: string;
    readonly Failure?: { readonly Message: string };
  }[];
}

scenario(
  "Kubernetes' own tests of networks pass beside the agent",
  async (lab, t) => {
    const { agent, cluster, measured } = lab;
    if (cluster.localNodes.length === 0) return t.skip('the image of its pods is only in a local cluster');
    await agent.deploy();
    await using directory = await temporaryDirectory();
    const report = join(directory.path, 'report.json');
    const isDual = cluster.families.length > 1;
    const leftOut = { ...LEFT_OUT, ...(!isDual && { IPv6DualStack: 'the cluster has one IP family' }) };
    const skip = Object.keys(leftOut).join('|');
    const args = [
      ...['--provider=local', `--kubeconfig=${cluster.kubeconfig}`, `--kubectl-path=${cluster.kubectl}`],
      ...[`--ginkgo.focus=${FOCUS.source}`, `--ginkgo.skip=${skip}`, `--ginkgo.json-report=${report}`],
      ...[`--ginkgo.timeout=${SUITE_MINUTES}m`, `--test.timeout=${SUITE_MINUTES + 3}m`],
    ];
    const signal = AbortSignal.any([t.signal, AbortSignal.timeout(PATIENCE_MS)]);
    const { code, said } = await runE2e(args, signal);
    const [suite]: readonly Report[] = JSON.parse(await readFile(report, 'utf8').catch(() => '[]'));
    const specs = suite?.SpecReports.filter(({ LeafNodeType }) => LeafNodeType === 'It') ?? [];
    const ran = specs.filter(({ State }) => State !== 'skipped' && State !== 'pending');
    const name = (spec: (typeof specs)[number]) =>
      [...(spec.ContainerHierarchyTexts ?? []), spec.LeafNodeText].join(' ');
    for (const spec of ran) measured(name(spec), spec.State);
    for (const spec of specs.filter((one) => !ran.includes(one) && FOCUS.test(name(one)))) {
      const reasons = Object.entries(leftOut).flatMap(([word, why]) =>
        name(spec).includes(word) ? why : [],
      );
      measured(`left out: ${name(spec)}`, reasons.join(', ') || 'the time was over before');
    }
    const failed = ran.filter(({ State }) => State !== 'passed');
    assert.deepEqual(
      failed.map((spec) => `${name(spec)}: ${spec.Failure?.Message}`),
      [],
    );
    assert.equal(code, 0, said.slice(-8_000));
    for (const part of WANTED)
      assert.ok(
        ran.some((spec) => new RegExp(part).test(name(spec))),
        `${part} ran`,
      );
  },
  { timeout: SCENARIO_MS },
);

/** Runs the tests to their end, or until the signal. What they have started ends with them. */
async function runE2e(
  args: readonly string[],
  signal: AbortSignal,
): Promise<{ readonly code: number | null; readonly said: string }> {
  const env = e2eEnvironment();
  await using group = await startGroup(E2E, args, { env, stdio: ['ignore', 'pipe', 'pipe'], signal });
  const { stdout, stderr } = group.child;
  const chunks: Buffer[] = [];
  for (const stream of [stdout, stderr]) stream?.on('data', (chunk: Buffer) => chunks.push(chunk));
  const [code] = await once(group.child, 'exit');
  return { code, said: text(chunks) };
}
