import assert from 'node:assert/strict';
import { kubectlCommands, sectionOf } from '../lab/documentation.ts';
import type { List, Pod } from '../lab/objects.ts';
import { packets, sourceText, untilPackets } from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

const VERDICTS = { nodes: 'masqueraded', pods: 'not masqueraded' } as const;
const BARE = { nodes: 'not masqueraded', pods: 'not masqueraded' } as const;

scenario('the agent is uninstalled as the documentation says, and installed again', async (lab, t) => {
  const { agent, kubectl, nodes } = lab;
  const kustomization = {
    sources: { 'ip-masq-operator': sourceText(lab, 'pods'), 'ip-masq-cloud': sourceText(lab) },
  };
  const commands = kubectlCommands(await sectionOf('docs/operations.md', 'Uninstall'));
  assert.deepEqual(
    commands.map(([verb]) => verb),
    ['patch', 'rollout', 'delete', 'debug'],
  );
  const [patch = [], , , debug = []] = commands;
  const noRules = async () => {
    for (const node of nodes) assert.equal(await node.ownRules(), '', node.name);
    assert.deepEqual(await packets(lab), BARE);
  };
  const install = async () => {
    await agent.deploy(kustomization);
    await untilPackets(lab, VERDICTS);
  };

  /** A pod on its way out may still run: it would write the rules again. */
  const uninstall = async () => {
    await agent.delete(kustomization);
    const pods = '--selector=app.kubernetes.io/name=ip-masq-agent';
    await kubectl.must('wait', 'pods', pods, '--for=delete', '--timeout=180s');
  };

  await install();
  await t.test('with --cleanup-on-exit no rule and no object is left', async () => {
    await kubectl.must(...patch);
    await agent.rolledOut();
    await uninstall();
    await until(
      'the rules to be gone',
      async () => await Promise.all(nodes.map((node) => node.ownRules())),
      (all) => all.every((rules) => rules === ''),
    );
    await noRules();
    const left = await kubectl.must(
      'get',
      'daemonsets,configmaps,serviceaccounts',
      '--selector=app.kubernetes.io/name',
      '--output=name',
    );
    assert.equal(left, '');
  });

  await t.test('installed again, it works', install);

  await t.test('for a DaemonSet that is deleted already, cleanup in a debug pod of each node', async () => {
    await uninstall();
    for (const { name, ownRules } of nodes) assert.notEqual(await ownRules(), '', name);
    assert.deepEqual(await packets(lab), VERDICTS);
    for (const { name } of nodes) await debugCleanup(lab, debug, name);
    await noRules();
  });

  await t.test('installed again, it works', install);
});

/** Runs the documented command without a terminal, and waits for the end of its pod. */
async function debugCleanup(
  { kubectl, cluster }: Lab,
  documented: readonly string[],
  node: string,
): Promise<void> {
  const args = documented
    .filter((word) => word !== '-it')
    .map((word) => word.replace('$NODE', node).replace('$IMAGE', cluster.image));
  const before = await debugPods();
  await kubectl.must(...args);
  const { metadata } =
    (await until(
      `the debug pod on ${node} to succeed`,
      async () =>
        (await debugPods()).find((pod) => before.every((known) => known.metadata.uid !== pod.metadata.uid)),
      (pod) => pod?.status.phase === 'Succeeded' || pod?.status.phase === 'Failed',
    )) ?? assert.fail('no pod');
  const log = await kubectl.must('logs', metadata.name);
  await kubectl.must('delete', 'pod', metadata.name);
  assert.match(log, /removed/, log);

  async function debugPods(): Promise<readonly Pod[]> {
    const { items } = await kubectl.get<List<Pod>>('pods');
    return items.filter((pod) => pod.metadata.name.startsWith(`node-debugger-${node}-`));
  }
}
