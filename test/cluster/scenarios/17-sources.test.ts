import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { DATAPLANES } from '../lab/agent.ts';
import type { Family } from '../lab/cluster.ts';
import { localNode } from '../lab/local-node.ts';
import type { List } from '../lab/objects.ts';
import { addressIn, configFileText, packets, routes, untilPackets } from '../lab/packets.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

const VERDICTS = { nodes: 'masqueraded', pods: 'not masqueraded' } as const;

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
    await agent.nudge();
    await untilSources(lab, [own(one), own(two)]);
  }
});

scenario(
  'the base is applied again: no config file changes that a controller keeps, and no packet',
  async (lab) => {
    const { agent, kubectl } = lab;
    const base = { configFiles: { 'ip-masq-operator': configFileText(lab, 'pods') } };
    await agent.deploy(base);
    await untilPackets(lab, VERDICTS);
    const kept = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'ip-masq-cloud' },
      data: { 'ip-masq-cloud': configFileText(lab, 'nodes') },
    };
    const reconcile = ['apply', '--server-side', '--field-manager=controller-of-the-cloud', '--filename=-'];
    assert.equal((await kubectl.feed(kept, ...reconcile)).code, 0);
    await agent.nudge();
    const inside = { nodes: 'not masqueraded', pods: 'not masqueraded' } as const;
    await untilPackets(lab, inside);

    const before = await kubectl.get<List<object>>('configmaps');
    await agent.deploy(base);
    assert.deepEqual((await kubectl.get<List<object>>('configmaps')).items, before.items);
    await agent.nudge();
    assert.deepEqual(await packets(lab), inside);
  },
);

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
        assert.ok(stdout.includes(`is masqueraded as ${addressOf(node)('IPv4')}`), stdout);
      }
    } finally {
      await change('del');
    }
    await untilSources(lab, nodes.map(before));
  }
});

scenario(
  "in nftables the agent's chain comes after that of kube-proxy, also after it starts again",
  async (lab, t) => {
    if (lab.cluster.localNodes.length === 0)
      return t.skip('it restarts kube-proxy, which needs a local cluster');
    await lab.agent.deploy({
      configFiles: { 'ip-masq-operator': configFileText(lab, 'pods'), 'ip-masq-cloud': configFileText(lab) },
      components: ['nftables'],
    });
    await untilPackets(lab, VERDICTS);
    for (const node of lab.nodes) {
      await localNode(lab.cluster, node).restart('kube-proxy');
      await until(
        `the chains of kube-proxy and the agent on ${node.name}`,
        () => postroutingChains(node),
        (chains) =>
          chains.at(-1)?.table === 'ip-masq-agent' && chains.some(({ table }) => table !== 'ip-masq-agent'),
      );
    }
    await untilPackets(lab, VERDICTS);
    const targets = lab.cluster.families.map(
      (family) => ({ protocol: 'tcp', address: addressIn(lab.service, family) }) as const,
    );
    for (const { name, client } of lab.nodes)
      await until(
        `an answer through a Service on ${name}`,
        () => client.ask('ask', { targets }),
        () => true,
      );
  },
);

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

interface Chain {
  readonly table: string;
  readonly prio: number;
}

/** The NAT chains in postrouting of IPv4, in the order in which packets meet them. */
async function postroutingChains(node: LabNode): Promise<readonly Chain[]> {
  const { nftables } = JSON.parse(await node.must('nft', '--json', 'list', 'chains', 'ip')) as {
    readonly nftables: readonly {
      readonly chain?: Chain & { readonly type?: string; readonly hook?: string };
    }[];
  };
  return nftables
    .flatMap(({ chain }) => (chain?.type === 'nat' && chain.hook === 'postrouting' ? [chain] : []))
    .toSorted((a, b) => a.prio - b.prio);
}
