import assert from 'node:assert/strict';
import { rulesOf } from '../lab/own-rules.ts';
import { PODS_INSIDE, untilPackets } from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

const THIRD = { name: 'third', podCIDR: '10.199.7.0/24' };
const DEPLOYMENT = { kind: 'Deployment', name: 'ip-masq-ranges' };

scenario('the list follows the cluster, without any range that a person names', async (lab) => {
  const { agent, kubectl, cluster } = lab;
  const begun = performance.now();
  const flags = ['--grace=60s', ...(cluster.families.includes('IPv6') ? ['--enable-ipv6'] : [])];
  await agent.apply({
    components: ['ranges'],
    configFiles: { 'ip-masq-operator': '{}\n' },
    patches: flags.map((value) => ({
      target: DEPLOYMENT,
      patch: JSON.stringify([{ op: 'add', path: '/spec/template/spec/containers/0/args/-', value }]),
    })),
  });
  await agent.rolledOut();
  await kubectl.must('rollout', 'status', 'deployment/ip-masq-ranges', '--timeout=180s');
  await untilPackets(lab, PODS_INSIDE);
  lab.measured('applied until pods see each other', `${Math.round(performance.now() - begun)} ms`);

  await kubectl.apply({
    ...{
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: THIRD.name, annotations: { test: 'no kubelet' } },
    },
    spec: { podCIDR: THIRD.podCIDR, podCIDRs: [THIRD.podCIDR], unschedulable: true },
  });
  try {
    await untilRules(lab, 'a node that joins', true);
  } finally {
    await kubectl.must('delete', 'node', THIRD.name);
  }
  const gone = performance.now();
  await kubectl.must('delete', 'configmap', 'ip-masq-ranges');
  const back = () => kubectl.must('get', 'configmap', 'ip-masq-ranges', '--output=jsonpath={.data}');
  const text = await until('the ConfigMap', back, () => true);
  const seconds = (performance.now() - gone) / 1000;
  lab.measured('a deleted ConfigMap is back', `${seconds.toFixed(1)} s`);
  assert.ok(seconds < 10 && text.includes(THIRD.podCIDR), text);
  await untilRules(lab, 'a node that has gone', false);
  assert.ok(performance.now() - gone > 60_000, 'its range stays for the grace');
  await untilPackets(lab, PODS_INSIDE);
});

async function untilRules(lab: Lab, what: string, areThere: boolean): Promise<void> {
  const begun = performance.now();
  const wanted = new RegExp(THIRD.podCIDR.replaceAll('.', '\\.'));
  await until(
    what,
    () => rulesOf(lab),
    (all) => all.every((rules) => wanted.test(rules) === areThere),
  );
  lab.measured(what, `${Math.round(performance.now() - begun)} ms`);
}
