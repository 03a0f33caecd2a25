import assert from 'node:assert/strict';
import type { KubeEvent, List } from '../lab/objects.ts';
import { rulesOf } from '../lab/own-rules.ts';
import {
  ALL_INSIDE,
  configFileText,
  PODS_INSIDE,
  packets,
  podsInside,
  untilPackets,
} from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

scenario(
  'a ConfigMap that is required is deleted: rules stay, a new pod waits, and the new ConfigMap applies',
  async (lab) => {
    const { agent, kubectl, nodes } = lab;
    const [one, two] = nodes;
    await agent.deploy({ configFiles: podsInside(lab) });
    await untilPackets(lab, PODS_INSIDE);
    const before = await rulesOf(lab);
    const running = await agent.pods();

    await agent.remove('ip-masq-operator');
    for (const { name } of running)
      await until(`the event FailedMount of ${name}`, () => mountFailures(lab, name), some);
    assert.deepEqual(await rulesOf(lab), before);

    const replaced = running.find(({ node }) => node === one.name) ?? assert.fail('no pod');
    await kubectl.must('delete', 'pod', replaced.name);
    const waiting = await until('a new pod that waits for the ConfigMap', agent.pods, (pods) =>
      pods.some(({ uid, node, container }) => {
        const isNew = uid !== replaced.uid && node === one.name;
        return isNew && container?.state.waiting?.reason === 'ContainerCreating';
      }),
    );
    const fresh = waiting.find(({ node }) => node === one.name) ?? assert.fail('no pod');
    await until(`the event FailedMount of ${fresh.name}`, () => mountFailures(lab, fresh.name), some);
    assert.deepEqual(await rulesOf(lab), before);
    assert.deepEqual(await packets(lab), PODS_INSIDE);

    const created = performance.now();
    await agent.write('ip-masq-operator', configFileText(lab, 'nodes', 'pods'));
    await untilPackets(lab, ALL_INSIDE);
    const after = `${Math.round(performance.now() - created)} ms`;
    lab.measured(
      `required ConfigMap created again, applied on ${one.name} by a new pod and on ${two.name}`,
      after,
    );
    await agent.podsAre('Ready', ({ isReady }) => isReady);
  },
);

async function mountFailures({ kubectl }: Lab, pod: string): Promise<readonly KubeEvent[]> {
  const selector = `--field-selector=reason=FailedMount,involvedObject.name=${pod}`;
  const { items } = await kubectl.get<List<KubeEvent>>('events', selector);
  return items.filter(({ message }) => message.includes('ip-masq-operator'));
}

function some(found: readonly unknown[]): boolean {
  return found.length > 0;
}
