import assert from 'node:assert/strict';
import type { ContainerStatus, KubeEvent, List, Pod } from '../lab/objects.ts';
import { configFileText, packets, untilPackets } from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { startTraffic } from '../lab/traffic.ts';
import { until } from '../lab/wait.ts';

const VERDICTS = { nodes: 'masqueraded', pods: 'not masqueraded' } as const;
const SECOND = 'second-agent';
const PER_SECOND = 10;

scenario('a second agent by mistake: what it says, and the first one is undisturbed', async (lab, t) => {
  const { agent, kubectl, nodes } = lab;
  const configFiles = {
    'ip-masq-operator': configFileText(lab, 'pods'),
    'ip-masq-cloud': configFileText(lab),
  };
  await agent.deploy({ configFiles });
  await untilPackets(lab, VERDICTS);
  const state = async () => ({
    rules: await Promise.all(nodes.map((node) => node.ownRules())),
    pods: (await agent.pods())
      .map(({ uid, isReady, container }) => [uid, isReady, container?.restartCount])
      .toSorted(),
  });
  const before = await state();
  await using traffic = await startTraffic(lab, PER_SECOND);

  await t.test('with the same port it stays Pending, and an event says that the port is taken', async () => {
    await kubectl.apply(await secondAgent(lab, 9614));
    const message = await until(
      'an event of each Pending pod',
      () => schedulingFailures(lab),
      (found) => found.length >= nodes.length,
    );
    for (const text of message) assert.match(text, /didn't have free ports for the requested pod ports/);
    assert.ok((await secondPods(lab)).every(({ status }) => status.phase === 'Pending'));
    assert.deepEqual(await state(), before);
    await remove(lab);
  });

  await t.test('with another port its log and its end say who holds the lock', async () => {
    await kubectl.apply(await secondAgent(lab, 9616));
    const ended = await until(
      'every second agent to end because of the lock',
      async () => (await secondPods(lab)).map(lastEnd),
      (all) => all.length >= nodes.length && all.every((end) => end !== undefined),
    );
    for (const end of ended) {
      assert.equal(end?.exitCode, 1);
      assert.match(
        end?.message ?? '',
        /^another agent holds this network namespace: .*did not end within 5s; keep one agent on each node/,
      );
    }
    const [pod] = await secondPods(lab);
    const log = await kubectl.must('logs', pod?.metadata.name ?? '', '--previous');
    assert.match(log, /another agent holds this network namespace: [^"]+; waiting up to 5s for it to end/);
    lab.measured('the end of the second agent', ended[0]?.message?.trim() ?? '');
    assert.deepEqual(await state(), before);
    assert.deepEqual(await packets(lab), VERDICTS);
    await remove(lab);
  });

  const results = await traffic.end(VERDICTS);
  assert.deepEqual(
    results.filter(({ wrong }) => wrong > 0).map(({ outcomes }) => outcomes),
    [],
  );
  lab.measured('connections meanwhile, all right', `${results.reduce((sum, { count }) => sum + count, 0)}`);
  assert.deepEqual(await state(), before);
});

interface DaemonSet {
  readonly spec: {
    readonly template: {
      readonly spec: { readonly containers: readonly { readonly args: readonly string[] }[] };
    };
  };
}

/** A copy of the first one under another name, as somebody makes it who tries the agent where it runs already. */
async function secondAgent({ kubectl }: Lab, port: number): Promise<object> {
  const { spec } = await kubectl.get<DaemonSet>('daemonset/ip-masq-agent');
  const labels = { 'app.kubernetes.io/name': SECOND };
  const [container] = spec.template.spec.containers;
  const own = {
    ...container,
    // It waits for the lock as long as the first one would wait for a busy kernel: by default 30 seconds.
    args: [...(container?.args ?? []).map((arg) => arg.replace(':9614', `:${port}`)), '--sync-timeout=5s'],
    ports: [{ name: 'metrics', containerPort: port, hostPort: port, protocol: 'TCP' }],
  };
  const template = { metadata: { labels }, spec: { ...spec.template.spec, containers: [own] } };
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: SECOND, labels },
    spec: { ...spec, selector: { matchLabels: labels }, template },
  };
}

async function secondPods({ kubectl }: Lab): Promise<readonly Pod[]> {
  const { items } = await kubectl.get<List<Pod>>('pods', `--selector=app.kubernetes.io/name=${SECOND}`);
  return items;
}

function lastEnd({ status }: Pod): ContainerStatus['lastState']['terminated'] {
  const [container] = status.containerStatuses ?? [];
  return container?.lastState.terminated;
}

/** What the scheduler says of the pods that are there now, one message of each. */
async function schedulingFailures(lab: Lab): Promise<readonly string[]> {
  const names = (await secondPods(lab)).map(({ metadata }) => metadata.name);
  const { items } = await lab.kubectl.get<List<KubeEvent>>(
    'events',
    '--field-selector=reason=FailedScheduling',
  );
  return names.flatMap(
    (name) => items.find(({ involvedObject }) => involvedObject.name === name)?.message ?? [],
  );
}

async function remove({ kubectl }: Lab): Promise<void> {
  await kubectl.must('delete', 'daemonset', SECOND, '--cascade=foreground');
}
