import assert from 'node:assert/strict';
import { DUAL_STACK } from '../lab/agent.ts';
import { dataplaneOn } from '../lab/agent-on-node.ts';
import {
  addressIn,
  configFileText,
  OTHER_PODS_MEANT,
  PODS_INSIDE,
  routes,
  untilPackets,
  verdictOf,
} from '../lab/packets.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

const MIB = 2 ** 20;

/** What the container sees of itself. The image has no other program that could tell. */
const LOOK_INSIDE = `
  const fs = require('node:fs');
  const written = (() => { try { fs.writeFileSync('/written', ''); return 'written'; } catch (error) { return error.code; } })();
  const status = fs.readFileSync('/proc/1/status', 'utf8');
  const field = (name) => new RegExp('^' + name + ':\\\\s*(.*)$', 'm').exec(status)?.[1];
  console.log(JSON.stringify({
    capabilities: [...new Set(['CapInh', 'CapPrm', 'CapEff', 'CapBnd'].map(field))].filter((set) => !/^0*$/.test(set)),
    noNewPrivileges: field('NoNewPrivs'), seccomp: field('Seccomp'), written,
    token: fs.existsSync('/var/run/secrets/kubernetes.io/serviceaccount'),
  }));`;

scenario('the base rolls out with the rights it declares, and packets do what it says', async (lab) => {
  const { agent, nodes, cluster } = lab;
  const begun = performance.now();
  const isDual = cluster.families.length > 1;
  // The lab leaves this range out otherwise.
  const dual = {
    overlay: DUAL_STACK,
    configFiles: { 'ip-masq-dual-stack': 'nonMasqueradeCIDRs: [fc00::/7]\n' },
  };
  await agent.deploy({ ...(isDual && dual), pace: 'shipped' });
  lab.measured('base applied until all agents are Ready', `${Math.round(performance.now() - begun)} ms`);

  for (const node of nodes) {
    await hasDeclaredRights(lab, node);
    assert.equal(await dataplaneOn(lab, node), cluster.proxyMode);
    await staysSmall(lab, node);
  }
  // Whether the nodes' addresses are private is the cluster's matter.
  await explainAgreesWithPackets(lab);
  await servicesKeepSources(lab);

  await agent.write('ip-masq-operator', configFileText(lab, 'pods'));
  if (isDual) await agent.write('ip-masq-dual-stack', 'nonMasqueradeCIDRs: []\n');
  await untilPackets(lab, PODS_INSIDE);
  await explainAgreesWithPackets(lab);
  await servicesKeepSources(lab);
  for (const { name } of nodes) {
    const { code, stdout, stderr } = await agent.exec(name, 'ip-masq-agent', 'doctor', ...OTHER_PODS_MEANT);
    assert.equal(code, 0, `doctor on ${name}: ${stdout}${stderr}`);
  }
});

async function hasDeclaredRights({ agent }: Lab, { name }: LabNode): Promise<void> {
  const { code, stdout, stderr } = await agent.exec(name, 'node', '-e', LOOK_INSIDE);
  assert.equal(code, 0, stderr);
  assert.deepEqual(JSON.parse(stdout), {
    // NET_ADMIN and NET_RAW (capabilities(7)).
    capabilities: [((1n << 12n) | (1n << 13n)).toString(16).padStart(16, '0')],
    noNewPrivileges: '1',
    seccomp: '2',
    written: 'EROFS',
    token: false,
  });
}

interface Summary {
  readonly pods: readonly {
    readonly podRef: { readonly namespace: string };
    readonly containers: readonly {
      readonly name: string;
      readonly memory?: { readonly workingSetBytes: number; readonly usageBytes: number };
    }[];
  }[];
}

/** Commands that run in the pod are charged to it too, until they end. */
async function staysSmall({ kubectl, namespace, measured }: Lab, { name }: LabNode): Promise<void> {
  const memory = await until(
    `the idle agent on ${name} to need at most 24 MiB`,
    async () => {
      const summary = await kubectl.must('get', '--raw', `/api/v1/nodes/${name}/proxy/stats/summary`);
      const { pods }: Summary = JSON.parse(summary);
      const ours = pods.filter(({ podRef }) => podRef.namespace === namespace);
      return ours
        .flatMap(({ containers }) => containers)
        .find((container) => container.name === 'ip-masq-agent')?.memory;
    },
    (memory) => memory !== undefined && memory.workingSetBytes <= 24 * MIB,
  );
  const { workingSetBytes, usageBytes } = memory ?? { workingSetBytes: 0, usageBytes: 0 };
  measured(
    `memory of the idle agent on ${name}`,
    `working set ${(workingSetBytes / MIB).toFixed(1)} MiB, charged ${(usageBytes / MIB).toFixed(1)} MiB`,
  );
}

interface Explanation {
  readonly verdict: 'not_masqueraded' | 'masqueraded';
  readonly live: { readonly agrees: boolean };
}

async function explainAgreesWithPackets(lab: Lab): Promise<void> {
  for (const node of lab.nodes) {
    const ways = routes(lab, undefined, ['tcp']).filter(({ from }) => from.name === node.name);
    const targets = ways.map(({ target }) => target);
    const addresses = targets.map(({ address }) => address);
    const seen = await node.client.ask('ask', { targets });
    const { code, stdout, stderr } = await lab.agent.exec(
      node.name,
      ...['ip-masq-agent', 'explain', '--live', '--output=json', ...addresses],
    );
    assert.equal(code, 0, stdout + stderr);
    const { addresses: explained }: { readonly addresses: readonly Explanation[] } = JSON.parse(stdout);
    const said = explained.map(({ verdict, live }) => ({
      verdict: verdict === 'masqueraded' ? 'masqueraded' : 'not masqueraded',
      agrees: live.agrees,
    }));
    const found = ways.map((way, index) => ({
      verdict: verdictOf(way, seen[index]?.source ?? ''),
      agrees: true,
    }));
    assert.deepEqual(said, found, `explain --live on ${node.name}: ${stdout}`);
  }
}

/** Through a Service, packets to pods keep the pod's address as they do without one. */
async function servicesKeepSources(lab: Lab): Promise<void> {
  for (const { client, name } of lab.nodes)
    for (const family of lab.cluster.families) {
      const address = addressIn(lab.service, family);
      // A Service chooses one of the servers at random.
      const targets = Array.from({ length: 16 }, () => ({ protocol: 'tcp', address }) as const);
      const seen = await client.ask('ask', { targets });
      const sources = new Set(seen.map(({ source }) => source));
      assert.deepEqual([...sources], [addressIn(client.addresses, family)], `${family} from ${name}`);
    }
}
