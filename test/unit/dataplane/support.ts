import assert from 'node:assert/strict';
import type { Netlink, Requests } from '../../../lib/dataplane/netlink.ts';
import { Netlink as DataplaneNetlink } from '../../../lib/dataplane/netlink.ts';

/** Netlink of which only these requests are answered, and each failure fails the test. */
export function fakeNetlink(requests: Partial<Requests>): Netlink {
  const none = () => assert.fail('an unexpected request');
  const openRequests = (): Requests => ({
    generation: none,
    table: none,
    chain: none,
    set: none,
    rules: none,
    elements: none,
    hasRange: none,
    content: none,
    change: none,
    natChains: none,
    size: none,
    ...requests,
  });
  return new DataplaneNetlink({ openRequests, openWatch: none }, (failure) =>
    assert.equal(failure, undefined),
  );
}
