import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type Home, onlyOwnRules } from '../lab/own-rules.ts';
import { sourceText, untilPackets } from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { endWithoutWrongs, openFlows, startTraffic } from '../lab/traffic.ts';

const PER_SECOND = 50;
const VERDICTS = { nodes: 'masqueraded', pods: 'not masqueraded' } as const;

scenario('iptables: an upgrade from the last release, and its rollback', (lab, t) =>
  upgradeAndBack(lab, t, { chain: 'IP-MASQ-AGENT' }),
);

scenario('nftables: an upgrade from the last release, and its rollback', (lab, t) =>
  upgradeAndBack(lab, t, 'table', 'nftables'),
);

/** No packet goes wrong, and the earlier agent finds its rules as it left them. */
async function upgradeAndBack(
  lab: Lab,
  t: TestContext,
  home: Home,
  ...components: readonly string[]
): Promise<void> {
  const { agent, cluster, kubectl, nodes } = lab;
  const { oldImage } = cluster;
  if (oldImage === undefined) return t.skip('CLUSTER_OLD_IMAGE does not name an image to upgrade from');
  const sources = { 'ip-masq-operator': sourceText(lab, 'pods'), 'ip-masq-cloud': sourceText(lab) };
  const rules = () => Promise.all(nodes.map((node) => node.ownRules()));
  await agent.deploy({ sources, components, image: oldImage });
  await untilPackets(lab, VERDICTS);
  await onlyOwnRules(lab, home);
  const before = await rules();
  const old = await version(lab);

  await using flows = await openFlows(lab, VERDICTS);
  await using traffic = await startTraffic(lab, PER_SECOND);
  await agent.deploy({ sources, components });
  await onlyOwnRules(lab, home);
  assert.notDeepEqual(await version(lab), old);
  assert.deepEqual(await flows.changes(), []);

  // As docs/operations.md says under "Rollback".
  await kubectl.must('rollout', 'undo', 'daemonset/ip-masq-agent');
  await agent.rolledOut();
  await onlyOwnRules(lab, home);
  assert.deepEqual(await version(lab), old);
  assert.deepEqual(await flows.changes(), []);
  assert.deepEqual(await rules(), before);

  const total = await endWithoutWrongs(traffic, VERDICTS);
  lab.measured('connections during an upgrade and its rollback', `${total}, 0 with the wrong source`);
}

/** What the agent of each node says of itself. */
async function version({ agent, nodes }: Lab): Promise<readonly string[]> {
  return await Promise.all(
    nodes.map(async ({ name }) => {
      const { code, stdout, stderr } = await agent.exec(name, 'ip-masq-agent', 'version');
      assert.equal(code, 0, stderr);
      return stdout;
    }),
  );
}
