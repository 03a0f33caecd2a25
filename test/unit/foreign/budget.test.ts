import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Budget, MOST_FINDINGS, MOST_FOUND, OUTPUT_BYTES } from '../../../lib/foreign/budget.ts';
import { findForeign } from '../../../lib/foreign/find.ts';
import { readNode } from '../../../lib/foreign/read-node.ts';
import { base, baseChainOf, fakeHost, MASQUERADE, OWN, policyOf, reply, unlimited } from './support.ts';

const INSIDE = policyOf('10.0.0.0/8');
const TOO_MANY = 'there are too many foreign rules to analyse: more than ';

/** So many chains of so many rules, each of which jumps to the next chain; the last one masquerades. */
function grid(chains: number, jumps: number): readonly string[] {
  const name = (index: number) => (index === 0 ? 'POSTROUTING' : `C${index}`);
  const lines = Array.from({ length: chains * jumps }, (_, index) => {
    const chain = Math.floor(index / jumps);
    return `-A ${name(chain)} -s 10.${chain}.${index % jumps}.0/24 -j ${name(chain + 1)}`;
  });
  return [...lines, `-A ${name(chains)} -j MASQUERADE`];
}

/** 10,000 rules in 1,000 chains that lead in circles; no more of them masquerade than are kept. */
const CIRCLES = Array.from({ length: 1_000 }, (_, index) => [
  `-A POSTROUTING -s 10.0.${index >> 8}.${index & 255} -j C${index}`,
  ...Array.from(
    { length: 8 },
    (_, jump) => `-A C${index} -o e${jump} -j C${(index * 7 + jump * 131 + 1) % 1_000}`,
  ),
  `-A C${index} -p udp -j ${index % 5 === 0 ? 'MASQUERADE' : 'RETURN'}`,
]).flat();

const look = (lines: readonly string[], budget = unlimited()) =>
  findForeign({ baseChains: [baseChainOf(lines)], unread: [] }, [INSIDE], [], undefined, budget);

/** A budget whose clock counts how often it is read: a number of steps, whatever the machine. */
function counting(limit = Number.POSITIVE_INFINITY): { readonly budget: Budget; steps(): number } {
  let steps = 0;
  const budget = new Budget({ cpuMs: limit }, () => {
    steps += 1;
    return steps;
  });
  return { budget, steps: () => steps };
}

describe('the work of a look at foreign rules', () => {
  for (const [name, lines] of [
    ['64 rules in 8 chains, each jumping to the next', grid(8, 8)],
    ['41 rules with 32,768 ways', grid(5, 8)],
    ['10,000 rules in 1,000 chains with circles', CIRCLES],
  ] as const) {
    it(`grows with the rules, not with the ways through them: ${name}`, async () => {
      const { budget, steps } = counting();
      const { findings } = await look(lines, budget);
      assert.ok(findings.length >= 1);
      assert.ok(steps() < 10 * lines.length + 1_000, `${steps()} steps`);
    });
  }

  it('gives one finding for one rule, however many ways lead to it', async () => {
    const { findings, unread } = await look(grid(8, 8));
    assert.deepEqual([findings.map(({ rules }) => rules), unread], [[1], []]);
  });

  it('lets other work of the process go on between the chains', async () => {
    let turns = 0;
    let done = false;
    const looking = look(CIRCLES, counting().budget).finally(() => {
      done = true;
    });
    for (; !done; turns += 1) await setImmediate();
    await looking;
    assert.ok(turns > 1_000, `${turns} turns`);
  });

  it('ends at its limit with what it has found, and says so once', async () => {
    const start = '-A POSTROUTING -o eth0 -j MASQUERADE';
    const { findings, unread } = await look([start, ...CIRCLES], counting(2_000).budget);
    assert.ok(findings.some(({ evidence }) => evidence.includes(start)));
    assert.equal(unread[0], `${TOO_MANY}2000 ms of CPU time`);
    const atOnce = { findings: [], unread: [`${TOO_MANY}50 ms of CPU time`] };
    assert.deepEqual(await look(CIRCLES, counting(50).budget), atOnce);
  });

  it('ends at its limit also within one long chain', async () => {
    const long = Array.from(
      { length: 5_000 },
      (_, index) => `-A POSTROUTING -s 10.0.${index >> 8}.${index & 255} -j ACCEPT`,
    );
    assert.deepEqual((await look([...long, '-A POSTROUTING -j MASQUERADE'], counting(100).budget)).unread, [
      `${TOO_MANY}100 ms of CPU time`,
    ]);
    const rules = { p: Array.from({ length: 5_000 }, () => reply(MASQUERADE)) };
    const host = fakeHost({}, [], {}, [base('IPv4', 't', 'p')], rules);
    const options = { families: ['IPv4'], ownChain: OWN, iptables: undefined } as const;
    assert.deepEqual((await readNode(host, options, unlimited())).unread, []);
    assert.deepEqual((await readNode(host, options, counting(100).budget)).unread, [
      `${TOO_MANY}100 ms of CPU time`,
    ]);
  });

  it('takes what it has read if the tools print more than it may read', async () => {
    const listed = '-P POSTROUTING ACCEPT\n-A POSTROUTING -j MASQUERADE\n'.padEnd(OUTPUT_BYTES / 2, ' ');
    const files = { '/proc/net/ip_tables_names': 'nat\n' };
    const host = fakeHost({ 'iptables-legacy': { stdout: listed } }, [], files);
    const iptables = { mode: 'legacy', suffix: '-legacy' } as const;
    const budget = unlimited();
    const tool = budget.limit(host);
    await tool.run('iptables-legacy', []);
    const read = () => readNode(host, { families: ['IPv4'], ownChain: OWN, iptables }, budget);
    assert.deepEqual((await read()).unread, []);
    assert.deepEqual((await read()).unread, [`${TOO_MANY}${OUTPUT_BYTES} bytes`]);
  });

  it('keeps so many rules that decide otherwise at most, and says that there are more', async () => {
    const rule = (index: number) =>
      `-A POSTROUTING -o e${index} -m comment --comment "flanneld masq" -j MASQUERADE`;
    const { findings, unread } = await look(
      Array.from({ length: MOST_FOUND + 1 }, (_, index) => rule(index)),
    );
    assert.equal(findings.length, 1);
    assert.deepEqual(unread, [`${TOO_MANY}${MOST_FOUND} that decide otherwise`]);
  });

  it('gives so many findings at most, and says that there are more', async () => {
    const rules = (count: number) =>
      Array.from({ length: count }, (_, index) => `-A POSTROUTING -o e${index} -j MASQUERADE`);
    const some = await look(rules(MOST_FINDINGS));
    assert.deepEqual([some.findings.length, some.unread], [MOST_FINDINGS, []]);
    const more = await look(rules(MOST_FINDINGS + 1));
    assert.deepEqual(
      [more.findings.length, more.unread],
      [MOST_FINDINGS, [`${TOO_MANY}${MOST_FINDINGS} findings`]],
    );
  });
});
