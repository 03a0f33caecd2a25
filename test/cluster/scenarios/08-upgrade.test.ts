import type { TestContext } from 'node:test';
import type { Home } from '../lab/own-rules.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { upgradeAndBack } from '../lab/upgrade.ts';

scenario('iptables: an upgrade from the last release, and its rollback', (lab, t) =>
  upgradeFromLastRelease(lab, t, { chain: 'IP-MASQ-AGENT' }),
);

scenario('nftables: an upgrade from the last release, and its rollback', (lab, t) =>
  upgradeFromLastRelease(lab, t, 'table', 'nftables'),
);

async function upgradeFromLastRelease(
  lab: Lab,
  t: TestContext,
  home: Home,
  ...components: readonly string[]
): Promise<void> {
  const { oldImage: image } = lab.cluster;
  if (image === undefined) return t.skip('CLUSTER_OLD_IMAGE does not name an image to upgrade from');
  await upgradeAndBack(lab, home, { components, image }, (configFiles) =>
    lab.agent.deploy({ components, configFiles }),
  );
}
