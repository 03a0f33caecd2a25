import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { DATAPLANES } from '../lab/agent.ts';
import type { Family } from '../lab/cluster.ts';
import { addressIn, configFileText, routes } from '../lab/packets.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

/** More addresses of each node. */
const RANGES = { IPv4: '198.51.100.0/24', IPv6: '2001:db8:100::/64' } as const;
const EVERYTHING = { IPv4: '0.0.0.0/0', IPv6: '::/0' } as const;
const HOST_BITS = { IPv4: 32, IPv6: 128 } as const;

scenario('only packets of listed ranges are masqueraded', async (lab) => {
  const { agent, nodes } = lab;
  const [one, two] = nodes;
  const limitedTo = (...some: readonly LabNode[]) => {
    const clients = some.flatMap(({ client }) =>
      lab.cluster.families.map((family) => `${addressIn(client.addresses, family)}/${HOST_BITS[family]}`),
    );
    return `masqueradeFromCIDRs: ${JSON.stringify(clients)}\n`;
  };
  for (const { components, args } of DATAPLANES) {
    await agent.deploy({
      configFiles: { 'ip-masq-operator': configFileText(lab, 'pods'), 'ip-masq-cloud': limitedTo(one) },
      components,
      args,
    });
    const own = (node: LabNode) => (family: Family) => addressIn(node.addresses, family);
    const clients = (node: LabNode) => (family: Family) => addressIn(node.client.addresses, family);
    await untilSources(lab, [own(one), clients(two)]);
    assert.match(
      await metricsOf(two),
      /^ip_masq_agent_connections_from_elsewhere_total\{family="IPv4"\} \d/m,
    );
    await agent.write('ip-masq-cloud', limitedTo(one, two));
    await untilSources(lab, [own(one), own(two)]);
  }
});

scenario('packets leave with the address of each node that one ConfigMap asks for', async (lab) => {
  const { agent, cluster, nodes } = lab;
  const addressOf = (node: LabNode) => (family: Family) =>
    RANGES[family].replace(/0?\/.*$/, `${1 + nodes.findIndex(({ name }) => name === node.name)}`);
  const items = cluster.families.map((family) => ({
    destination: EVERYTHING[family],
    address: RANGES[family],
  }));
  const change = async (what: 'add' | 'del') => {
    for (const node of nodes)
      for (const family of cluster.families)
        await node.must(
          'ip',
          'address',
          what,
          `${addressOf(node)(family)}/${HOST_BITS[family]}`,
          'dev',
          'lo',
        );
  };
  const before = (node: LabNode) => (family: Family) => addressIn(node.addresses, family);
  for (const { components, args } of DATAPLANES) {
    await agent.deploy({
      configFiles: {
        'ip-masq-operator': configFileText(lab, 'pods'),
        'ip-masq-cloud': `masqueradeAddresses: ${JSON.stringify(items)}\n`,
      },
      components,
      // Only an event of the kernel can lead to the addresses.
      args: ['--resync-interval=24h', ...args],
    });
    await untilSources(lab, nodes.map(before));
    await change('add');
    try {
      await untilSources(lab, nodes.map(addressOf));
      for (const [node, other] of [nodes, nodes.toReversed()] as const) {
        const asked = addressIn(other.addresses, 'IPv4');
        const { code, stdout } = await agent.exec(node.name, 'ip-masq-agent', 'explain', '--live', asked);
        assert.equal(code, 0, stdout);
        // It does not say "is" where kube-proxy's chain comes first.
        assert.match(
          stdout,
          new RegExp(`: (?:is|the config says) masqueraded as ${addressOf(node)('IPv4')}:`),
        );
        const ofNode = stdout
          .split('\n')
          .filter((line) => line.includes(` tcp ${addressIn(node.addresses, 'IPv4')}:`));
        assert.ok(!ofNode.some((line) => line.includes('it began before')), stdout);
      }
    } finally {
      await change('del');
    }
    await untilSources(lab, nodes.map(before));
  }
});

/** Waits until the clients' packets to the other node have the source that belongs to the node, over TCP and UDP. */
async function untilSources(lab: Lab, wanted: readonly ((family: Family) => string)[]): Promise<void> {
  const all = routes(lab, ['nodes']);
  const look = () =>
    Promise.all(
      lab.nodes.map(async ({ client, name }) => {
        const own = all.filter(({ from }) => from.name === name);
        const seen = await client.ask('ask', { targets: own.map(({ target }) => target) });
        return seen.map(({ source }) => source);
      }),
    );
  const expected = lab.nodes.map(({ name }, index) =>
    all.filter(({ from }) => from.name === name).map(({ family }) => wanted[index]?.(family)),
  );
  await until(`packets from ${JSON.stringify(expected)}`, look, (seen) => isDeepStrictEqual(seen, expected));
}

async function metricsOf({ host }: LabNode): Promise<string> {
  return (await host.ask('fetch', { url: 'http://127.0.0.1:9614/metrics' })).body;
}
