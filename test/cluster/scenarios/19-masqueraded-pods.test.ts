import assert from 'node:assert/strict';
import { covers, type Prefix, parsePrefix } from '../../../lib/cidr/prefix.ts';
import { type Family, statusUrl } from '../lab/cluster.ts';
import { addressIn, untilPackets } from '../lab/packets.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

/** What pods and nodes have, as far as addresses are private. */
const PRIVATE = { IPv4: '10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16', IPv6: '"fc00::/7"' } as const;
const EMPTY = 'nonMasqueradeCIDRs: []\n';
const MOST_MS = 60_000;

scenario('after a list was emptied, the agents name the range of their pods within a minute', async (lab) => {
  const { agent, cluster, nodes } = lab;
  const { families } = cluster;
  const full = `nonMasqueradeCIDRs: [${families.map((family) => PRIVATE[family]).join(', ')}]\n`;
  await agent.deploy({ configFiles: { 'ip-masq-operator': full, 'ip-masq-cloud': EMPTY } });
  for (const node of nodes) {
    for (const family of families) await untilRoutes(lab, node, family, (routes) => routes === 0);
    assert.deepEqual(await findings(lab, node), []);
    assert.deepEqual(await findingsOfDoctor(lab, node), []);
  }

  const emptied = Date.now();
  await agent.write('ip-masq-operator', EMPTY);
  await untilPackets(lab, { nodes: 'masqueraded', pods: 'masqueraded' });
  for (const node of nodes) {
    for (const family of families) {
      const pod = prefixOf(`${addressIn(node.client.addresses, family)}/${family === 'IPv4' ? 32 : 128}`);
      await untilRoutes(lab, node, family, (routes) => routes > 0);
      const [found, ...more] = await until(
        `a finding on ${node.name} that holds ${pod.text}`,
        async () => (await findings(lab, node)).filter(({ range }) => covers(range, pod)),
        (all) => all.length > 0,
      );
      assert.ok(found);
      assert.deepEqual(more, [], 'it is told once');
      const took = found.at - emptied;
      assert.ok(took < MOST_MS, `${took} ms`);
      lab.measured(`${family}: list emptied, range of pods named on ${node.name}`, `after ${took} ms`);
    }
    const kinds = new Set(await findingsOfDoctor(lab, node));
    assert.ok(kinds.has('pods-masqueraded'), [...kinds].join());
  }

  await agent.write('ip-masq-operator', full);
  await untilPackets(lab, { pods: 'not masqueraded' });
  for (const node of nodes)
    for (const family of families) await untilRoutes(lab, node, family, (routes) => routes === 0);
  for (const node of nodes) assert.deepEqual(await findingsOfDoctor(lab, node), []);
});

/** Waits for a look that has found so many routes to pods that are masqueraded. */
async function untilRoutes(
  { cluster }: Lab,
  { host, name }: LabNode,
  family: Family,
  isWanted: (routes: number) => boolean,
): Promise<void> {
  const series = new RegExp(`^ip_masq_agent_masqueraded_pod_routes\\{family="${family}"\\} (\\d+)$`, 'm');
  await until(
    `the routes to masqueraded pods on ${name}, ${family}`,
    async () => series.exec((await host.ask('fetch', { url: statusUrl(cluster, '/metrics') })).body)?.[1],
    (found) => found !== undefined && isWanted(Number(found)),
  );
}

/** The ranges of pods that the agent has warned of, and when, in milliseconds. */
async function findings({ agent }: Lab, { name }: LabNode) {
  const lines = (await agent.log(name)).split('\n').filter((line) => line.includes(' to pods in '));
  return lines.map((line) => {
    const { msg, time, level } = JSON.parse(line);
    assert.equal(level, 'warn');
    const [, range = ''] = / to pods in (\S+), which/.exec(msg) ?? [];
    return { range: prefixOf(range), at: Date.parse(time) };
  });
}

/** The kinds of findings, as an operator sees them. */
async function findingsOfDoctor({ agent }: Lab, { name }: LabNode): Promise<readonly string[]> {
  const { stdout } = await agent.exec(name, 'ip-masq-agent', 'doctor', '--output=json');
  const { findings } = JSON.parse(stdout);
  return findings.map(({ kind }: { kind: string }) => kind);
}

function prefixOf(text: string): Prefix {
  const parsed = parsePrefix(text);
  assert.ok('prefix' in parsed, text);
  return parsed.prefix;
}
