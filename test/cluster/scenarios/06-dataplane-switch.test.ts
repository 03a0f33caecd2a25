import assert from 'node:assert/strict';
import type { Kustomization } from '../lab/agent.ts';
import { PODS_INSIDE, podsInside, untilPackets } from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { withoutWrongs } from '../lab/traffic.ts';
import { until } from '../lab/wait.ts';

const CHAIN = /^-A IP-MASQ-AGENT /m;
const TABLE = /^table ip ip-masq-agent /m;

scenario('a rollout switches the dataplane, forth and back, and no packet goes wrong', async (lab) => {
  const configFiles = podsInside(lab);
  const iptables = { configFiles, args: ['--backend=iptables'] };
  await lab.agent.deploy(iptables);
  await untilPackets(lab, PODS_INSIDE);
  await holdsOnly(lab, CHAIN, TABLE);
  await withoutWrongs(lab, 'two switches of the dataplane', async (flows) => {
    await rollOut(lab, 'nftables', { configFiles, components: ['nftables'] });
    await holdsOnly(lab, TABLE, CHAIN);
    assert.deepEqual(await flows.changes(), []);
    // Without a flag, kube-proxy's tables decide, and not the rules that are there.
    await rollOut(lab, 'the base', { configFiles });
    await (lab.cluster.proxyMode === 'nftables'
      ? holdsOnly(lab, TABLE, CHAIN)
      : holdsOnly(lab, CHAIN, TABLE));
    await rollOut(lab, 'iptables', iptables);
    await holdsOnly(lab, CHAIN, TABLE);
  });
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
