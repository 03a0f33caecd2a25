import assert from 'node:assert/strict';
import { pageOn } from '../lab/agent-on-node.ts';
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

const OPERATOR = 'ip-masq-operator';

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

scenario(
  'an optional ConfigMap is deleted: log and metric name it, with the verdicts that change; with none left the defaults apply',
  async (lab) => {
    const { agent, nodes, cluster } = lab;
    const others = cluster.families.length > 1 ? (['ip-masq-dual-stack'] as const) : [];
    const configFiles = {
      'ip-masq-operator': configFileText(lab, 'pods'),
      'ip-masq-cloud': configFileText(lab, 'nodes'),
    };
    await agent.deploy({
      args: ['--vanished-grace=0'],
      configFiles,
      patches: [OPERATOR, ...others].map((_, index) => optional(1 + index)),
    });
    await untilPackets(lab, ALL_INSIDE);

    const deleted = performance.now();
    await agent.remove('ip-masq-cloud');
    await untilPackets(lab, PODS_INSIDE);
    lab.measured(
      'optional ConfigMap deleted, applied',
      `after ${Math.round(performance.now() - deleted)} ms`,
    );
    const address = nodes[0].addresses.IPv4;
    for (const node of nodes) {
      await logged(lab, node.name, /ip-masq-cloud is gone since the last reading/);
      const line = await logged(lab, node.name, /: not masqueraded → masqueraded/);
      assert.ok(line.includes(address ?? assert.fail('no address')), line);
      const { body } = await pageOn(lab, node, '/metrics');
      assert.doesNotMatch(body, /config_file_info\{file="ip-masq-cloud"\}/);
      assert.match(body, /config_file_info\{file="ip-masq-operator"\} 1/);
      assert.match(body, new RegExp(`^ip_masq_agent_config_files ${1 + others.length}$`, 'm'));
    }

    for (const configFile of [OPERATOR, ...others] as const) await agent.remove(configFile);
    for (const node of nodes) {
      await until(
        `no config file on ${node.name}`,
        () => pageOn(lab, node, '/metrics'),
        ({ body }) => /^ip_masq_agent_config_files 0$/m.test(body),
      );
      const line = await logged(lab, node.name, /no config found, the defaults apply/);
      assert.equal(JSON.parse(line).level, 'warn');
      assert.match(await node.ownRules(), /10\.0\.0\.0\/8/);
    }
  },
);

/** The base makes the config files of people `false`: this is what its comment warns of. */
function optional(configFile: number) {
  const path = `/spec/template/spec/volumes/0/projected/sources/${configFile}/configMap/optional`;
  return {
    target: { kind: 'DaemonSet', name: 'ip-masq-agent' },
    patch: JSON.stringify([{ op: 'replace', path, value: true }]),
  };
}

async function mountFailures({ kubectl }: Lab, pod: string): Promise<readonly KubeEvent[]> {
  const selector = `--field-selector=reason=FailedMount,involvedObject.name=${pod}`;
  const { items } = await kubectl.get<List<KubeEvent>>('events', selector);
  return items.filter(({ message }) => message.includes('ip-masq-operator'));
}

function some(found: readonly unknown[]): boolean {
  return found.length > 0;
}

/** The last line of the agent's log on the node that matches. */
async function logged({ agent }: Lab, node: string, pattern: RegExp): Promise<string> {
  const find = async () => (await agent.log(node)).split('\n').findLast((line) => pattern.test(line));
  const line = await until(
    `a line of the log on ${node} that matches ${pattern}`,
    find,
    (found) => found !== undefined,
  );
  return line ?? '';
}
