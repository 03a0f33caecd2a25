import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ShownRules } from '../../../lib/dataplane/nftables/shown-rules.ts';
import { renderTable } from '../../../lib/dataplane/nftables/table.ts';
import type { Expression } from '../../../lib/netlink/expressions.ts';
import type { RuleReply } from '../../../lib/netlink/replies.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { mergedOf } from '../config/support.ts';

const { chains } = renderTable(compilePolicy(mergedOf({}), 'IPv4'), {
  chain: 'X',
  randomFully: true,
  toPorts: [],
});

/** The rules of the agent as a kernel sends them. */
function shownBy(show: (one: Expression) => Expression): readonly RuleReply[] {
  return chains.flatMap(({ name, rules }) =>
    rules.map(({ expressions, comment }): RuleReply => {
      return { chain: name, comment, expressions: expressions.map(show), packets: undefined };
    }),
  );
}

const older = shownBy((one) => one);
const newer = shownBy((one) =>
  one.name === 'masq' ? { name: 'unknown', type: 'masq', bytes: '0c000900' } : one,
);

describe('the rules that a kernel shows otherwise', () => {
  it('are those that the agent has written, once it has seen them', () => {
    const shown = new ShownRules();
    assert.notDeepEqual(shown.asMeant(newer), older);
    shown.learn(chains, newer);
    assert.deepEqual(shown.asMeant(newer), older);
  });

  it('are not learnt from a chain with fewer rules, so that a rule without expressions stays foreign', () => {
    const shown = new ShownRules();
    shown.learn(chains, []);
    const foreign: RuleReply = {
      chain: chains[0]?.name ?? '',
      comment: undefined,
      expressions: [],
      packets: undefined,
    };
    assert.deepEqual(shown.asMeant([foreign]), [foreign]);
  });
});
