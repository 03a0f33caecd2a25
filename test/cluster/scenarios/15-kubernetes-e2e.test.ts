import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../../lab/run.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { scenario } from '../lab/scenario.ts';
import { E2E, e2eEnvironment } from '../local/e2e.ts';

/** None of them looks up names, so the cluster needs no DNS. */
const FOCUS = /NoSNAT|Granular Checks/;
/** What is left out, and why. */
const LEFT_OUT = {
  SCTP: 'the kernel may have no SCTP',
  Slow: 'it waits for minutes',
};
const PATIENCE_MS = 3_600_000;

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

scenario("Kubernetes' own tests of networks pass beside the agent", async (lab, t) => {
  const { agent, cluster, measured } = lab;
  if (cluster.localNodes.length === 0) return t.skip('the image of its pods is only in a local cluster');
  await agent.deploy();
  await using directory = await temporaryDirectory();
  const report = join(directory.path, 'report.json');
  const isDual = cluster.families.length > 1;
  const skip = [...Object.keys(LEFT_OUT), ...(isDual ? [] : ['IPv6DualStack'])].join('|');
  const args = [
    ...['--provider=local', `--kubeconfig=${cluster.kubeconfig}`, `--kubectl-path=${cluster.kubectl}`],
    ...[`--ginkgo.focus=${FOCUS.source}`, `--ginkgo.skip=${skip}`, `--ginkgo.json-report=${report}`],
    ...['--ginkgo.timeout=55m', '--test.timeout=58m'],
  ];
  const { code, stdout, stderr } = await run({ file: E2E, args }, e2eEnvironment(), {
    timeoutMs: PATIENCE_MS,
  });
  const [suite]: readonly Report[] = JSON.parse(await readFile(report, 'utf8').catch(() => '[]'));
  const specs = suite?.SpecReports.filter(({ LeafNodeType }) => LeafNodeType === 'It') ?? [];
  const ran = specs.filter(({ State }) => State !== 'skipped' && State !== 'pending');
  const name = (spec: (typeof specs)[number]) =>
    [...(spec.ContainerHierarchyTexts ?? []), spec.LeafNodeText].join(' ');
  for (const spec of ran) measured(name(spec), spec.State);
  for (const spec of specs.filter((one) => !ran.includes(one) && FOCUS.test(name(one)))) {
    const reasons = Object.entries(LEFT_OUT).flatMap(([word, why]) => (name(spec).includes(word) ? why : []));
    measured(`left out: ${name(spec)}`, reasons.join(', ') || 'the cluster has one IP family');
  }
  const failed = ran.filter(({ State }) => State !== 'passed');
  assert.deepEqual(
    failed.map((spec) => `${name(spec)}: ${spec.Failure?.Message}`),
    [],
  );
  assert.equal(code, 0, `${stdout.slice(-4_000)}${stderr.slice(-4_000)}`);
  assert.ok(
    ran.some((spec) => name(spec).includes('NoSNAT')),
    'NoSNAT ran',
  );
  assert.ok(ran.length > 10, `only ${ran.length} ran`);
});
