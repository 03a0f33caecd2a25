import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNeighbour } from '../lab/box.ts';
import { owning } from '../lab/owning.ts';
import { ip, makePodNetwork } from '../lab/pod-links.ts';
import { POD_NETWORKS, type PodNetwork } from '../lab/pod-networks.ts';
import {
  createNode,
  eventually,
  inside,
  jsonLines,
  type NodeLab,
  type RunningAgent,
  SERVED,
} from './support.ts';

const FLANNEL =
  POD_NETWORKS.find(({ name }) => name.startsWith('flannel (vxlan)')) ?? assert.fail('no such network');

/** A node with this network, and the pods behind it. */
const createNodeOf = (network: PodNetwork) =>
  owning(async (stack) => {
    const node = stack.use(await createNode());
    const pods = stack.use(await createNeighbour(node.box));
    await makePodNetwork(node.box, pods, network);
    await node.run('sysctl', '-q', '-w', 'net.ipv4.ip_forward=1');
    return node;
  });

const WARNING = /^(IPv[46]): (\d+) routes? leads? to pods in (\S+), which the config masquerades/;

/** The ranges that the agent has warned of, in order, each with how many routes lead there. */
function warned(agent: RunningAgent): readonly string[] {
  return jsonLines(agent.log()).flatMap(({ level, msg }) => {
    const [, , routes, range] = WARNING.exec(String(msg)) ?? [];
    return range === undefined ? [] : [`${level}: ${range} (${routes})`];
  });
}

/** The findings of the doctor that are about pods, with the family. */
async function found(node: NodeLab, ...flags: string[]): Promise<readonly string[]> {
  return await findings(node, ['pods-masqueraded', 'not-read'], ...flags);
}

async function findings(node: NodeLab, kinds: readonly string[], ...flags: string[]) {
  const { stdout } = await node.agent('doctor', '--output=json', ...flags);
  const { findings } = JSON.parse(stdout);
  return findings
    .filter(({ kind }: { kind: string }) => kinds.includes(kind))
    .map(({ family, message }: Record<string, string>) => `${family}: ${message}`);
}

/** The gauge by family; none if there is none. */
async function gauge(node: NodeLab): Promise<readonly string[]> {
  const lines = (await node.metrics()).match(/^ip_masq_agent_masqueraded_pod_routes\S* .*$/gm) ?? [];
  return lines.map((line) => line.replace(/^.*family="(\w+)".* /, '$1 '));
}

/** The agent listens after its first sync, and looks after that; an answer may be a moment old. */
async function gaugeBecomes(node: NodeLab, agent: RunningAgent, wanted: string): Promise<void> {
  await eventually(
    async () => (await gauge(node).catch(() => ['not served'])).join() === wanted,
    () => `the gauge ${wanted}; the log is ${agent.log()}`,
  );
}

async function looked(agent: RunningAgent, changes: number): Promise<void> {
  const count = () => jsonLines(agent.log()).filter(({ reason }) => reason === 'change').length;
  await eventually(
    () => count() >= changes,
    () => `${changes} changes; the log is ${agent.log()}`,
  );
}

describe('the agent on a node with routes to pods', () => {
  it('warns once of a list that has been emptied, with routes, range and ConfigMap, and doctor does too', async () => {
    await using node = await createNodeOf(FLANNEL);
    const volume = await node.volume({ 'ip-masq-operator': inside('10.0.0.0/8') });
    const agent = node.start('--resync-interval=1h', SERVED);
    await gaugeBecomes(node, agent, 'IPv4 0');
    assert.deepEqual(warned(agent), []);
    assert.deepEqual(await found(node), []);

    await volume.swap({ 'ip-masq-operator': 'nonMasqueradeCIDRs: []\n' });
    await agent.logged(/lead to pods/);
    const [warning, ...more] = jsonLines(agent.log()).filter(({ msg }) => WARNING.test(String(msg)));
    assert.deepEqual(more, []);
    assert.equal(
      warning?.['msg'],
      'IPv4: 2 routes lead to pods in 10.244.0.0/22, which the config masquerades; list 10.244.0.0/22, or the whole range of pods that holds it, in nonMasqueradeCIDRs of the ConfigMap with ip-masq-operator; if this is intended, accept it: --accept-masqueraded=10.244.0.0/22',
    );
    assert.deepEqual(warning['routes'], ['10.244.1.0/24 dev cni0', '10.244.2.0/24 dev flannel.1']);
    await gaugeBecomes(node, agent, 'IPv4 2');
    assert.deepEqual(await found(node), [
      'IPv4: 2 routes lead to pods in 10.244.0.0/22, which the config masquerades',
    ]);

    // The same range again is not told again; another one is.
    await volume.swap({ 'ip-masq-operator': inside('192.168.0.0/16') });
    await looked(agent, 2);
    await ip(node.box, 'route add 100.64.7.0/24 dev flannel.1');
    await volume.swap({ 'ip-masq-operator': inside('192.168.0.0/17') });
    await agent.logged(/100\.64\.7\.0\/24/);
    assert.deepEqual(warned(agent), ['warn: 10.244.0.0/22 (2)', 'warn: 100.64.7.0/24 (1)']);

    await volume.swap({ 'ip-masq-operator': inside('10.0.0.0/8', '100.64.0.0/10') });
    await gaugeBecomes(node, agent, 'IPv4 0');
    await agent.stop();
  });

  it('has a finding of doctor if masqueradeFromCIDRs does not list its own pods, with the place', async () => {
    await using node = await createNodeOf(FLANNEL);
    const volume = await node.volume({ 'ip-masq-operator': inside('10.0.0.0/8') });
    for (const [sources, isFound] of [
      ['', false],
      ['masqueradeFromCIDRs: [10.244.1.0/24]\n', false],
      ['masqueradeFromCIDRs: [10.244.2.0/24]\n', true],
      ['masqueradeFromCIDRs: [10.244.2.0/24]\nnonMasqueradeFromCIDRs: [10.244.0.0/23]\n', false],
    ] as const) {
      await volume.swap({ 'ip-masq-operator': `${inside('10.0.0.0/8')}${sources}` });
      const { stdout } = await node.agent('doctor');
      const place =
        /^pods-left-out \(IPv4\): 1 route leads .*\n.* lists 10\.244\.2\.0\/24 of ip-masq-operator:2:\d+\n *10\.244\.1\.0\/24 dev cni0$/m;
      assert.equal(place.test(stdout), isFound, `${sources}${stdout}`);
      if (!isFound) assert.doesNotMatch(stdout, /pods-left-out/);
    }
  });
});
