import type { TestContext } from 'node:test';
import { DATAPLANES } from '../lab/agent.ts';
import type { Home } from '../lab/own-rules.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { upgradeAndBack } from '../lab/upgrade.ts';

const HOMES: Readonly<Record<(typeof DATAPLANES)[number]['backend'], Home>> = {
  iptables: { chain: 'IP-MASQ-AGENT' },
  nftables: 'table',
};

for (const { backend, components, args } of DATAPLANES)
  scenario(`${backend}: an upgrade from an earlier commit, and its rollback`, (lab, t) =>
    upgradeFromEarlier(lab, t, HOMES[backend], { components, args }),
  );

async function upgradeFromEarlier(
  lab: Lab,
  t: TestContext,
  home: Home,
  dataplane: Pick<(typeof DATAPLANES)[number], 'components' | 'args'>,
): Promise<void> {
  const { oldImage: image } = lab.cluster;
  if (image === undefined) return t.skip('CLUSTER_OLD_IMAGE does not name an image to upgrade from');
  await upgradeAndBack(lab, home, { ...dataplane, image }, (configFiles) =>
    lab.agent.deploy({ ...dataplane, configFiles }),
  );
}
