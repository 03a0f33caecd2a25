import assert from 'node:assert/strict';
import { succeed } from '../../lab/run.ts';
import type { Kustomization } from './agent.ts';
import { kubectlCommands, sectionOf } from './documentation.ts';
import { type Home, onlyOwnRules } from './own-rules.ts';
import { configFileText, untilPackets } from './packets.ts';
import type { Lab } from './scenario.ts';
import { endWithoutWrongs, openFlows, startTraffic } from './traffic.ts';

const PER_SECOND = 50;
const VERDICTS = { nodes: 'masqueraded', pods: 'not masqueraded' } as const;

/**
 * An upgrade and its rollback: no packet goes wrong, and the earlier agent finds its rules as it left them.
 *
 * @param old the agent to upgrade from, which gets config files from here
 * @param upgrade returns when every node runs the other agent with these config files
 */
export async function upgradeAndBack(
  lab: Lab,
  home: Home,
  old: Kustomization,
  upgrade: (configFiles: NonNullable<Kustomization['configFiles']>) => Promise<void>,
): Promise<void> {
  const { agent, kubectl, nodes } = lab;
  const configFiles = {
    'ip-masq-operator': configFileText(lab, 'pods'),
    'ip-masq-cloud': configFileText(lab),
  };
  const rules = () => Promise.all(nodes.map((node) => node.ownRules()));
  await agent.deploy({ ...old, configFiles });
  await untilPackets(lab, VERDICTS);
  await onlyOwnRules(lab, home);
  const before = await rules();
  const oldVersion = await version(lab);

  await using flows = await openFlows(lab, VERDICTS);
  await using traffic = await startTraffic(lab, PER_SECOND);
  await upgrade(configFiles);
  await onlyOwnRules(lab, home);
  assert.notDeepEqual(await version(lab), oldVersion);
  assert.deepEqual(await flows.changes(), []);

  const rollback = kubectlCommands(await sectionOf('docs/install.md', 'Roll back'));
  assert.deepEqual(
    rollback.map(([, verb]) => verb),
    ['undo', 'status'],
  );
  for (const args of rollback) await kubectl.must(...args);
  await onlyOwnRules(lab, home);
  assert.deepEqual(await version(lab), oldVersion);
  assert.deepEqual(await flows.changes(), []);
  assert.deepEqual(await rules(), before);

  const total = await endWithoutWrongs(traffic, VERDICTS);
  lab.measured('connections during an upgrade and its rollback', `${total}, 0 with the wrong source`);
}

/** What the agent of each node says of itself. */
async function version({ agent, nodes }: Lab): Promise<readonly string[]> {
  return await Promise.all(nodes.map(({ name }) => succeed(agent.exec(name, 'ip-masq-agent', 'version'))));
}
