import assert from 'node:assert/strict';
import { it } from 'node:test';
import { removeLeftovers } from '../../lib/agent/leftovers.ts';
import { Knowledge } from '../../lib/agent/state.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { Netlink } from '../../lib/dataplane/netlink.ts';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import type { DataplaneOptions } from '../../lib/dataplane/options.ts';
import { Notices } from '../../lib/log/notices.ts';
import { capturedLog } from '../lab/log.ts';
import { createNetlinkBox, DEFAULTS, isInSync, kindOf, policyOf, settle } from './support.ts';

const OPTIONS: DataplaneOptions = { ...DEFAULTS, backend: 'auto', mode: 'nft', families: ['IPv4'] };

for (const comesIntoUse of [true, false])
  it(`rules in the other dataplane ${comesIntoUse ? 'stay if they come into use while they are read' : 'are removed'}`, async () => {
    await using node = await createNetlinkBox(kindOf(0));
    const policy = policyOf('IPv4', {});
    const agent = new Knowledge();
    const iptables = await openIptables(OPTIONS, node.host);
    const nftables = openNftables(OPTIONS, node.host);
    await settle(nftables, policy);
    agent.set({ dataplane: iptables });
    const requests = {
      ...node.netlink,
      // The rules are the last that is read of a table.
      rules: (...values: Parameters<typeof node.netlink.rules>) => {
        if (comesIntoUse) agent.set({ dataplane: nftables });
        return node.netlink.rules(...values);
      },
    };
    const netlink = new Netlink({ openRequests: () => requests, openWatch: () => assert.fail() }, () => {});
    const { log, lines } = capturedLog();
    const failure = await removeLeftovers({
      dataplane: OPTIONS,
      host: { ...node.host, netlink },
      agent,
      notices: new Notices(log),
      signal: new AbortController().signal,
    });
    assert.deepEqual([failure, lines.length], [undefined, comesIntoUse ? 0 : 1]);
    assert.equal(await isInSync(nftables, policy), comesIntoUse);
  });
