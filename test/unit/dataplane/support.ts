import assert from 'node:assert/strict';
import fc from 'fast-check';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Host, ToolResult } from '../../../lib/dataplane/host.ts';
import type { Netlink, Requests } from '../../../lib/dataplane/netlink.ts';
import { Netlink as DataplaneNetlink } from '../../../lib/dataplane/netlink.ts';

export const OWN = 'IP-MASQ-AGENT';

/** Netlink of which only these requests are answered, and each failure fails the test. */
export function fakeNetlink(requests: Partial<Requests>): Netlink {
  const none = () => assert.fail('an unexpected request');
  const openRequests = (): Requests => ({
    generation: none,
    table: none,
    chain: none,
    chains: none,
    sets: none,
    objects: none,
    rules: none,
    elements: none,
    commit: none,
    natChains: none,
    ...requests,
  });
  return new DataplaneNetlink({ openRequests, openWatch: none }, (failure) =>
    assert.equal(failure, undefined),
  );
}

/** Options that decide about rules. */
export const anyOptions = fc.record({
  chain: fc.constant('OURS'),
  randomFully: fc.oneof(fc.boolean(), fc.constant(['tcp', 'sctp'] as const)),
  toPorts: fc.constantFrom(
    [],
    [{ first: 1024, last: 2000 }],
    [1, 20].map((first) => ({ first, last: 2 * first - 1 })),
  ),
  invalidPackets: fc.constantFrom('count', 'drop', 'off'),
});

/** What tools say, by their whole command or just their name. */
export type Answers = Readonly<Record<string, Partial<ToolResult>>>;

/** A machine without netlink, whose tools answer from a table; whatever is not in it is not installed. */
export function hostWith(answers: Answers, commands: string[] = []): Host {
  return {
    run: async (file, args) => {
      const command = [file, ...args].join(' ');
      commands.push(command);
      const answer = answers[command] ?? answers[file];
      if (answer === undefined) throw new DataplaneError('missing', `${file} is not installed`, 'install it');
      return { code: 0, stdout: '', stderr: '', ...answer };
    },
    readText: async () => '',
  };
}
