import assert from 'node:assert/strict';
import { it } from 'node:test';
import { seeElementCounts, seeElements } from '../../../lib/dataplane/nftables/see.ts';
import { renderTable } from '../../../lib/dataplane/nftables/table.ts';
import type { Elements } from '../../../lib/netlink/elements.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { mergedOf } from '../config/support.ts';
import { fakeNetlink } from './support.ts';

const config = mergedOf({ x: 'nonMasqueradeCIDRs: [10.0.0.0/8, 11.0.0.0/16, 12.0.0.0/16]' });
const TABLE = renderTable(compilePolicy(config, 'IPv4'), { chain: 'X', randomFully: false, toPorts: [] });
const KNOWN = { isOwn: true, ...TABLE };
const ALL = TABLE.ranges.map(({ first, last }) => ({ first, last, packets: undefined }));
const NAMES = [...TABLE.elements.keys()];

/** Sends these elements, and has the others, or has not. */
function netlink(reading: Partial<Elements>, hasOthers = true) {
  const elements = async () => ({ ranges: ALL, catchAll: false, torn: false, ...reading });
  return fakeNetlink({ elements, hasRange: async () => hasOthers });
}

const names = (elements: ReadonlyMap<string, unknown> | undefined) => elements && [...elements.keys()];

it('an element that is missing in a reading with changes is missing only if the kernel has it not', async () => {
  const reading = { torn: true, ranges: ALL.slice(1) };
  assert.deepEqual(names(await seeElements(netlink(reading, true), 'IPv4', KNOWN)), NAMES);
  assert.deepEqual(names(await seeElements(netlink(reading, false), 'IPv4', KNOWN)), NAMES.slice(1));
});

it('there are counts only of a set that holds what is known', async () => {
  const counted = ALL.map((range, index) => ({
    ...range,
    packets: index === 0 ? undefined : BigInt(index),
  }));
  const counts = await seeElementCounts(netlink({ ranges: counted }), 'IPv4', TABLE);
  assert.deepEqual(
    [...(counts ?? [])],
    NAMES.map((text, index) => [text, BigInt(index)]),
  );
  for (const reading of [{ ranges: counted.slice(1) }, { catchAll: true }])
    assert.equal(await seeElementCounts(netlink(reading), 'IPv4', TABLE), undefined);
});
