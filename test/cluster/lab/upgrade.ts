import assert from 'node:assert/strict';
import { succeed } from '../../lab/run.ts';
import type { Kustomization } from './agent.ts';
import { kubectlCommands, sectionOf } from './documentation.ts';
import { type Home, onlyOwnRules, rulesOf } from './own-rules.ts';
import { PODS_INSIDE, podsInside, untilPackets } from './packets.ts';
import type { Lab } from './scenario.ts';
import { withoutWrongs } from './traffic.ts';

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
  const { agent, kubectl } = lab;
  const configFiles = podsInside(lab);
  await agent.deploy({ ...old, configFiles });
  await untilPackets(lab, PODS_INSIDE);
  await onlyOwnRules(lab, home);
  const before = await rulesOf(lab);
  const oldVersion = await version(lab);
  await withoutWrongs(lab, 'an upgrade and its rollback', async (flows) => {
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
    assert.deepEqual(await rulesOf(lab), before);
  });
}

/** What the agent of each node says of itself. */
async function version({ agent, nodes }: Lab): Promise<readonly string[]> {
  return await Promise.all(nodes.map(({ name }) => succeed(agent.exec(name, 'ip-masq-agent', 'version'))));
}
