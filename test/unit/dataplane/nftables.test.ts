import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Host } from '../../../lib/dataplane/host.ts';
import { openNftables } from '../../../lib/dataplane/nftables/nftables.ts';
import { renderTable } from '../../../lib/dataplane/nftables/table.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { mergedOf } from '../config/support.ts';
import { fakeNetlink } from './requests.ts';

const OPTIONS = { chain: 'X', randomFully: false, toPorts: [] };

// Other versions of nft keep other notes in a table, which no nft prints.
it('the set is read again after another program has written the same table anew', async () => {
  const policy = compilePolicy(mergedOf({ x: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' }), 'IPv4');
  const { shape, ranges } = renderTable(policy, OPTIONS);
  let [id, fingerprint, held] = [1, 'by one nft', ranges];
  const thing = async () => ({ fingerprint });
  const netlink = fakeNetlink({
    generation: async () => ({ id, process: 'nft' }),
    table: thing,
    set: thing,
    chain: thing,
    rules: async () => [],
    elements: async () => {
      const elements = held.map((range) => ({ ...range, counter: undefined }));
      return { ranges: elements, catchAll: false, torn: false };
    },
  });
  const listing = ['table ip ip-masq-agent {', ...shape, '}', ''].join('\n');
  const host: Host = {
    netlink,
    run: async (_, [option]) => {
      const stdout = option === '--version' ? 'nftables v1.0.6' : listing;
      return { code: 0, stdout, stderr: '' };
    },
    readText: async () => '',
  };
  const dataplane = await openNftables(OPTIONS, host);
  assert.equal((await dataplane.observe('IPv4')).plan(policy), undefined);
  assert.equal(await dataplane.compare?.('IPv4'), 'same');
  [id, fingerprint, held] = [2, 'by another nft', ranges.slice(1)];
  assert.equal(await dataplane.compare?.('IPv4'), 'changed');
  assert.deepEqual((await dataplane.observe('IPv4', 'memory')).plan(policy)?.found, ['elements differ']);
});
