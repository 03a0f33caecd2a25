import assert from 'node:assert/strict';
import type { Kustomization } from '../lab/agent.ts';
import { configFileText, untilPackets } from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { endWithoutWrongs, openFlows, startTraffic } from '../lab/traffic.ts';
import { until } from '../lab/wait.ts';

const PER_SECOND = 50;
const VERDICTS = { nodes: 'masqueraded', pods: 'not masqueraded' } as const;

const CHAIN = /^-A IP-MASQ-AGENT /m;
const TABLE = /^table ip ip-masq-agent /m;

scenario('a rollout switches the dataplane, forth and back, and no packet goes wrong', async (lab) => {
  const configFiles = {
    'ip-masq-operator': configFileText(lab, 'pods'),
    'ip-masq-cloud': configFileText(lab),
  };
  const iptables = { configFiles, args: ['--backend=iptables'] };
  await lab.agent.deploy(iptables);
  await untilPackets(lab, VERDICTS);
  await holdsOnly(lab, CHAIN, TABLE);

  await using flows = await openFlows(lab, VERDICTS);
  await using traffic = await startTraffic(lab, PER_SECOND);
  await rollOut(lab, 'nftables', { configFiles, components: ['nftables'] });
  await holdsOnly(lab, TABLE, CHAIN);
  assert.deepEqual(await flows.changes(), []);
  // Without a flag, the rules that are there decide.
  await rollOut(lab, 'the base', { configFiles });
  await holdsOnly(lab, TABLE, CHAIN);
  await rollOut(lab, 'iptables', iptables);
  await holdsOnly(lab, CHAIN, TABLE);
  assert.deepEqual(await flows.changes(), []);

  const total = await endWithoutWrongs(traffic, VERDICTS);
  lab.measured('connections during two switches of the dataplane', `${total}, 0 with the wrong source`);
});

async function rollOut({ agent, measured }: Lab, name: string, kustomization: Kustomization): Promise<void> {
  const begun = performance.now();
  await agent.deploy(kustomization);
  measured(`rollout to ${name}`, `${Math.round(performance.now() - begun)} ms`);
}

/** Leftovers are removed beside the loop, after the pod is Ready. */
async function holdsOnly({ nodes }: Lab, here: RegExp, gone: RegExp): Promise<void> {
  for (const { name, ownRules } of nodes)
    await until(`rules that match ${here} and not ${gone} on ${name}`, ownRules, (rules) => {
      return here.test(rules) && !gone.test(rules);
    });
}
