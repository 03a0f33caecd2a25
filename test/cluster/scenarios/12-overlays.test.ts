import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { type AgentPod, DUAL_STACK } from '../lab/agent.ts';
import type { List, Pod } from '../lab/objects.ts';
import {
  cidrs,
  configFileText,
  PLACES,
  type Place,
  packets,
  routes,
  untilPackets,
  type Verdicts,
  verdictOf,
} from '../lab/packets.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

const VERDICTS = { nodes: 'masqueraded', pods: 'not masqueraded' } as const;
const MISTAKE = 'masqueradeCIDRs: [10.0.0.1]\n';
const SAID = /ip-masq-operator:1:19: error: /;
const OPPOSITE = { nodes: 'not masqueraded', pods: 'masqueraded' } as const;

scenario(
  'merger-sidecar: it writes one file for a reader, is Ready when the file is current, and says why it is not',
  async (lab) => {
    const { agent, nodes } = lab;
    const configFiles = {
      'ip-masq-cloud': `nonMasqueradeCIDRs: ${JSON.stringify([...cidrs(lab, 'pods'), '198.18.0.0/15'])}\n`,
      'ip-masq-operator': 'masqueradeCIDRs: [198.18.0.0/16]\n',
    };
    const overlay = { overlay: 'overlays/merger-sidecar', patches: readerPatches(lab) };
    await agent.apply({ ...overlay, configFiles: { ...configFiles, 'ip-masq-operator': MISTAKE } });
    const said = (pod: Pod) => pod.status.initContainerStatuses?.[0]?.lastState.terminated?.message ?? '';
    await until(
      'the init containers to say why they fail',
      () => podsOf(lab, 'ip-masq-agent'),
      (pods) => pods.length > 0 && pods.every((pod) => SAID.test(said(pod))),
    );
    await agent.write('ip-masq-operator', configFiles['ip-masq-operator']);
    await agent.rolledOut();
    await untilPackets(lab, VERDICTS);
    for (const node of nodes) {
      assert.deepEqual(await probe(node, '/healthz'), { status: 200, body: 'ok\n' });
      assert.deepEqual(await probe(node, '/readyz'), { status: 200, body: 'ok\n' });
    }

    // Without the exception, which the reader does not know.
    for (const node of nodes) {
      const rules = await node.ownRules();
      assert.match(rules, / 198\.19\.0\.0\/16 /);
      assert.doesNotMatch(rules, /198\.18\./);
    }

    const changed = performance.now();
    await agent.write('ip-masq-cloud', configFileText(lab, 'nodes'));
    await agent.nudge();
    await untilPackets(lab, OPPOSITE);
    lab.measured(
      'merger-sidecar: change of a ConfigMap until packets follow',
      `${Math.round(performance.now() - changed)} ms`,
    );
    await agent.podsAre('Ready', ({ isReady }) => isReady);

    const rules = await Promise.all(nodes.map((node) => node.ownRules()));
    await agent.write('ip-masq-operator', MISTAKE);
    await agent.nudge();
    await agent.podsAre(
      "not Ready, with the reason in the sidecar's termination message",
      ({ isReady, container }) => {
        const end = container?.lastState.terminated ?? container?.state.terminated;
        return (
          !isReady &&
          end?.exitCode === 3 &&
          /^1 error in the config; the output file does not change\nip-masq-operator:1:19: error: /.test(
            end.message ?? '',
          )
        );
      },
    );
    assert.deepEqual(await Promise.all(nodes.map((node) => node.ownRules())), rules);
    assert.deepEqual(await packets(lab), OPPOSITE);

    await agent.write('ip-masq-operator', configFiles['ip-masq-operator']);
    await agent.write('ip-masq-cloud', configFiles['ip-masq-cloud']);
    await agent.nudge();
    await untilPackets(lab, VERDICTS);
    await agent.podsAre('Ready again', ({ isReady }) => isReady);
  },
);

scenario('merger-sidecar with keep: /readyz says what is wrong, and no container ends', async (lab) => {
  const { agent, nodes } = lab;
  const configFiles = {
    'ip-masq-cloud': configFileText(lab),
    'ip-masq-operator': configFileText(lab, 'pods'),
  };
  const args = ['--on-invalid-config=keep'];
  await agent.deploy({ overlay: 'overlays/merger-sidecar', configFiles, args, patches: readerPatches(lab) });
  await untilPackets(lab, VERDICTS);
  await agent.write('ip-masq-operator', MISTAKE);
  await agent.nudge();
  for (const node of nodes) {
    const { status, body } = await until(
      `the reason at /readyz of ${node.name}`,
      () => probe(node, '/readyz'),
      (answer) => /^\[-\] config: /.test(answer.body),
    );
    assert.equal(status, 503);
    assert.match(body, /the first is ip-masq-operator:1:19: error: /);
  }
  await agent.podsAre(
    'not Ready, and not restarted',
    ({ isReady, container }) => !isReady && container?.restartCount === 0,
  );
  assert.deepEqual(await packets(lab), VERDICTS);
  await agent.write('ip-masq-operator', configFileText(lab, 'nodes'));
  await agent.nudge();
  await untilPackets(lab, OPPOSITE);
  await agent.podsAre('Ready again', ({ isReady, container }) => isReady && container?.restartCount === 0);
});

scenario('dual-stack: one overlay keeps the rules of both families', async (lab) => {
  const { agent, nodes } = lab;
  const configFiles = {
    'ip-masq-operator': configFileText(lab, 'pods'),
    'ip-masq-cloud': 'nonMasqueradeCIDRs: [fd00:1::/64]\n',
  };
  await agent.deploy({ overlay: DUAL_STACK, configFiles });
  await untilPackets(lab, VERDICTS);
  for (const { name, ownRules } of nodes) assert.match(await ownRules(), /[ \t]fd00:1::\/64[ ,]/, name);
  await agent.write('ip-masq-operator', configFileText(lab, 'nodes'));
  await agent.nudge();
  await untilPackets(lab, OPPOSITE);
});

scenario('strict: a warning ends the agents, and no packet changes', async (lab) => {
  const { agent, nodes } = lab;
  const configFiles = {
    'ip-masq-operator': `${configFileText(lab, 'pods')}masqLinkLocal: false\n`,
    'ip-masq-cloud': configFileText(lab),
  };
  await agent.deploy({ overlay: 'overlays/strict', configFiles });
  await untilPackets(lab, VERDICTS);
  const rules = await Promise.all(nodes.map((node) => node.ownRules()));
  // One change: kubelet may bring two one after the other, and the first alone would be valid.
  await agent.write('ip-masq-cloud', `${configFileText(lab, 'nodes')}masqLinkLocal: true\n`);
  await agent.nudge();
  await agent.podsAre('ended by a warning', ({ container }: AgentPod) => {
    const end = container?.lastState.terminated;
    return end?.exitCode === 3 && /masqLinkLocal/.test(end.message ?? '');
  });
  assert.deepEqual(await Promise.all(nodes.map((node) => node.ownRules())), rules);
  assert.deepEqual(await packets(lab), VERDICTS);
  await agent.write('ip-masq-cloud', configFileText(lab, 'nodes'));
  await agent.write('ip-masq-operator', configFileText(lab));
  await agent.nudge();
  await untilPackets(lab, OPPOSITE);
  await agent.podsAre('Ready', ({ isReady }) => isReady);
});

scenario(
  "canary: only the node with the label has its config, and without it production's objects and packets are as before",
  async (lab) => {
    const { agent, kubectl, nodes } = lab;
    const [one, two] = nodes;
    const label = 'ip-masq-agent/channel';
    await using stack = new AsyncDisposableStack();
    stack.defer(async () => {
      await kubectl.must('label', 'node', one.name, `${label}-`);
    });
    const production = {
      configFiles: { 'ip-masq-operator': configFileText(lab, 'pods'), 'ip-masq-cloud': configFileText(lab) },
      components: ['dashboard'],
    };
    await agent.deploy(production);
    await untilPackets(lab, VERDICTS);
    const before = await specsOf(lab);
    const canaryIsReady = async () =>
      await kubectl.must('rollout', 'status', 'daemonset/ip-masq-agent-canary', '--timeout=180s');

    // As it comes, it does as production does.
    await agent.apply({ ...production, canary: {} });
    await kubectl.must('label', 'node', one.name, `${label}=canary`, '--overwrite');
    await until(
      'the pod of the canary',
      () => nodesOf(lab, 'ip-masq-agent-canary'),
      (names) => isDeepStrictEqual(names, [one.name]),
    );
    await canaryIsReady();
    assert.deepEqual(await packets(lab), VERDICTS);

    await agent.apply({
      ...production,
      canary: { 'ip-masq-operator': configFileText(lab, 'nodes', 'pods') },
    });
    await kubectl.must(
      'annotate',
      'pods',
      '--selector=app.kubernetes.io/name=ip-masq-agent-canary',
      'nudge=1',
    );
    // Packets to pods meet the rules of the other node too, so the two configs agree about those.
    await untilPacketsFrom(lab, one, { ...VERDICTS, nodes: 'not masqueraded' });
    await untilPacketsFrom(lab, two, VERDICTS);
    await canaryIsReady();
    assert.ok(!(await nodesOf(lab, 'ip-masq-agent')).includes(one.name));

    await kubectl.must('label', 'node', one.name, `${label}-`);
    await untilPackets(lab, VERDICTS);
    await agent.rolledOut();
    assert.deepEqual(await nodesOf(lab, 'ip-masq-agent-canary'), []);
    await agent.delete({ ...production, canary: {} });
    assert.deepEqual(await specsOf(lab), before);
    await agent.podsAre('Ready', ({ isReady }) => isReady);
    assert.deepEqual(await packets(lab), VERDICTS);
  },
);

/** All objects of the agents in the namespace, without what the cluster writes to them. */
async function specsOf({ kubectl }: Lab): Promise<readonly object[]> {
  interface Kept {
    readonly kind: string;
    readonly metadata: { readonly name: string; readonly uid: string; readonly generation?: number };
    readonly data?: object;
    readonly spec?: object;
  }
  const kinds = 'daemonsets,configmaps,serviceaccounts';
  const { items } = await kubectl.get<List<Kept>>(kinds, '--selector=app.kubernetes.io/name');
  return items.map(({ kind, metadata: { name, uid, generation }, data, spec }) => {
    return { kind, name, uid, generation, data, spec };
  });
}

/**
 * In the place of v1, which needs another image: this agent as the reader of the file that the sidecar writes. The component
 * dual-stack of the lab knows only the first container.
 */
function readerPatches({ cluster }: Lab): readonly object[] {
  const container = (path: string, value: unknown, op = 'replace') => ({
    op,
    path: `/spec/template/spec/${path}`,
    value,
  });
  const ipv6 = cluster.families.includes('IPv6') ? ['--enable-ipv6'] : [];
  const target = { kind: 'DaemonSet', name: 'ip-masq-agent' };
  const patch = [
    container('containers/1/image', cluster.image),
    container('containers/1/args', ['--v=2', '--metrics-bind-address=', ...ipv6]),
    ...ipv6.map((arg) => container('initContainers/0/args/-', arg, 'add')),
  ];
  return [{ target, patch: JSON.stringify(patch) }];
}

function probe({ host }: LabNode, path: string) {
  return host.ask('fetch', { url: `http://127.0.0.1:9615${path}` });
}

/** As `untilPackets`, for the client of one node. */
async function untilPacketsFrom(lab: Lab, { name, client }: LabNode, wanted: Verdicts): Promise<void> {
  const own = routes(lab).filter(({ from }) => from.name === name);
  const look = async () => {
    const seen = await client.ask('ask', { targets: own.map(({ target }) => target) });
    const at = (place: Place) =>
      [
        ...new Set(
          own.flatMap((route, index) =>
            route.place === place ? verdictOf(route, seen[index]?.source ?? '') : [],
          ),
        ),
      ].join(', ');
    return Object.fromEntries(PLACES.map((place) => [place, at(place)]));
  };
  await until(`packets from ${name} to be as the config says`, look, (found) =>
    PLACES.every((place) => found[place] === wanted[place]),
  );
}

async function nodesOf(lab: Lab, app: string): Promise<readonly string[]> {
  return (await podsOf(lab, app)).flatMap(({ spec }) => spec.nodeName ?? []).toSorted();
}

async function podsOf({ kubectl }: Lab, app: string): Promise<readonly Pod[]> {
  const { items } = await kubectl.get<List<Pod>>('pods', `--selector=app.kubernetes.io/name=${app}`);
  return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}
