import assert from 'node:assert/strict';
import type { List, Pod } from '../lab/objects.ts';
import { rulesOf } from '../lab/own-rules.ts';
import { cidrs, configFileText, PODS_INSIDE, packets, untilPackets } from '../lab/packets.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

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
    await untilPackets(lab, PODS_INSIDE);
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
    await untilPackets(lab, OPPOSITE);
    lab.measured(
      'merger-sidecar: change of a ConfigMap until packets follow',
      `${Math.round(performance.now() - changed)} ms`,
    );
    await agent.podsAre('Ready', ({ isReady }) => isReady);

    const rules = await rulesOf(lab);
    await agent.write('ip-masq-operator', MISTAKE);
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
    assert.deepEqual(await rulesOf(lab), rules);
    assert.deepEqual(await packets(lab), OPPOSITE);

    await agent.write('ip-masq-operator', configFiles['ip-masq-operator']);
    await agent.write('ip-masq-cloud', configFiles['ip-masq-cloud']);
    await untilPackets(lab, PODS_INSIDE);
    await agent.podsAre('Ready again', ({ isReady }) => isReady);
  },
);

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

async function podsOf({ kubectl }: Lab, app: string): Promise<readonly Pod[]> {
  const { items } = await kubectl.get<List<Pod>>('pods', `--selector=app.kubernetes.io/name=${app}`);
  return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}
