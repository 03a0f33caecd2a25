import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { renderChain, renderJump, renderQuotedJump } from '../../lib/dataplane/iptables/chain.ts';
import type { Policy } from '../../lib/policy/policy.ts';
import { DAMAGES } from '../lab/damages.ts';
import { succeed } from '../lab/run.ts';
import { CHAIN, DEFAULTS, type Family, forEachMode, type Lab, policyOf } from './support.ts';

const CONFIG: Readonly<Record<Family, string>> = {
  IPv4: 'nonMasqueradeCIDRs: [10.0.0.0/8, 192.168.0.0/16]',
  IPv6: 'nonMasqueradeCIDRs: [fd00::/8, "2001:db8::/32"]',
};

const JUMP = renderJump(CHAIN);
const JUMP_OF_V2 = renderQuotedJump(CHAIN);

/** A rule of somebody else's whose text is hard to read back. */
const FOREIGN_RULE = ['-m', 'comment', '--comment', 'it\'s "foreign" \\ odd', '-j', 'ACCEPT'];

forEachMode((makeLab, family, mode) => {
  const policy = policyOf(family, { 'ip-masq-operator': CONFIG[family] });

  it('makes the chain and one jump, then has nothing more to do', async () => {
    await using lab = await makeLab();
    const plan = await lab.sync(policy);
    assert.deepEqual(plan?.found, ['no readable chain', 'jump missing']);
    // One for each entry, one for the node itself, and the last one.
    assert.equal(plan.added.length, policy.entries.length + 2);
    await assertExact(lab, policy);
    assert.equal(await lab.sync(policy), undefined);
  });

  it('leaves the counters alone where nothing differs', async () => {
    await using lab = await makeLab();
    await lab.sync(policy);
    const [first] = await rulesOf(lab, CHAIN);
    await lab.restore(`-R ${CHAIN} 1 ${first} -c 7 420`);
    const counted = await lab.iptables('-v', '-S', CHAIN);
    assert.match(counted, /-c 7 420 -j RETURN/);
    assert.equal(await lab.sync(policy), undefined);
    assert.equal(await lab.iptables('-v', '-S', CHAIN), counted);
  });

  describe('on one node, one after the other,', () => {
    let lab: Lab;
    before(async () => {
      lab = await makeLab();
      await addForeignRules(lab);
      await lab.sync(policy);
      await lab.iptables('-A', 'POSTROUTING', ...FOREIGN_RULE);
    });
    after(() => lab[Symbol.asyncDispose]());

    for (const [what, { found, script }] of Object.entries(DAMAGES.iptables)) {
      // In legacy mode nothing is in nf_tables.
      if (mode === 'legacy' && what === 'a flushed ruleset') continue;
      it(`repairs ${what}`, async () => {
        assert.equal(await lab.sync(policy), undefined);
        const tool = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${mode}`;
        await succeed(lab.box.run('sh', ['-ec', script(family, tool)]));
        const foreign = await foreignRules(lab);
        assert.deepEqual((await lab.sync(policy))?.found, found);
        await assertExact(lab, policy);
        assert.deepEqual(await foreignRules(lab), foreign);
        assert.equal(await lab.sync(policy), undefined);
      });
    }
  });

  it('follows a changed policy in one transaction, and says what was added, removed and kept', async () => {
    await using lab = await makeLab();
    await lab.sync(policy);
    const [, kept, gone] = policy.entries;
    assert.ok(kept !== undefined && gone !== undefined);
    const changed: Policy = { family, from: [], entries: [{ ...gone, verdict: 'masqueraded' }, kept] };
    const before = lab.commands.length;
    const plan = await lab.sync(changed);
    assert.deepEqual(plan?.found, ['rules differ']);
    // Kept are one entry, the rule for the node itself, and the last rule.
    assert.deepEqual([plan.added.length, plan.removed.length, plan.kept], [1, 2, 3]);
    assert.equal(lab.commands.slice(before).filter((command) => command.includes('-restore')).length, 1);
    await assertExact(lab, changed);
  });

  it('reads no foreign chain and writes once, however many foreign rules there are', async () => {
    await using lab = await makeLab();
    const foreign = Array.from({ length: 5_000 }, (_, index) => `KUBE-SVC-${index}`);
    // In pieces: a user namespace may not raise the buffer of the netlink socket.
    for (let start = 0; start < foreign.length; start += 500) {
      const part = foreign.slice(start, start + 500);
      await lab.restore(
        ...part.map((chain) => `:${chain} - [0:0]`),
        ...part.map((chain) => `-A ${chain} -j RETURN`),
      );
    }
    const start = lab.commands.length;
    for (const _ of [1, 2, 3]) await lab.sync(policy);
    const commands = lab.commands.slice(start);
    const writes = commands.filter((command) => command.includes('-restore '));
    assert.equal(writes.length, 1);
    const reads = commands.filter((command) => !writes.includes(command));
    // None ever lists the whole table.
    for (const read of reads) assert.match(read, / -t nat (?:-S|-C) (?:IP-MASQ-AGENT|POSTROUTING)/);
    assert.equal(
      (await lab.iptables('-S')).split('\n').filter((line) => line.startsWith('-A KUBE-SVC-')).length,
      5_000,
    );
  });

  it('removes jump and chain, then has nothing more to remove', async () => {
    await using lab = await makeLab();
    await addForeignRules(lab);
    const before = await lab.iptables('-S');
    await lab.sync(policy);
    await lab.iptables('-A', 'POSTROUTING', '-j', CHAIN);
    await lab.remove();
    assert.equal(await lab.iptables('-S'), before);
    assert.equal(await lab.remove(), undefined);
  });

  it('starts at most five programs for a change, and none, or two in legacy mode, if it finds nothing', async () => {
    await using lab = await makeLab();
    const started = async (run: () => Promise<unknown>) => {
      const before = lab.commands.length;
      await run();
      return lab.commands.slice(before);
    };
    // In nft mode netlink says that there is no chain yet.
    assert.equal((await started(() => lab.sync(policy))).length, mode === 'nft' ? 1 : 4);
    const idle = () => lab.sync(policy);
    const change = async () => {
      await lab.sync(policyOf(family, {}));
      await lab.dataplane.observe(family);
    };
    await idle();
    assert.equal((await started(idle)).length, mode === 'nft' ? 0 : 2);
    const commands = await started(change);
    assert.ok(commands.length <= 5, commands.join('\n'));
    await lab.iptables('-I', CHAIN, '-j', 'RETURN');
    assert.deepEqual((await lab.sync(policyOf(family, {})))?.found, ['rules differ']);
  });

  it('empties the chain if a foreign rule leads to it, and says with the words of iptables why it stays', async () => {
    await using lab = await makeLab();
    await lab.sync(policy);
    await lab.iptables('-N', 'FOREIGN');
    await lab.iptables('-A', 'FOREIGN', '-j', CHAIN);
    const observed = await lab.dataplane.observe(family);
    await observed.planRemoval()?.apply();
    assert.deepEqual(await rulesOf(lab, CHAIN), []);
    const [text = '', ...more] = observed.describeUndeletable();
    assert.deepEqual(more, []);
    assert.match(
      text,
      /^chain IP-MASQ-AGENT stays, empty, because iptables does not delete it: .*(?:busy|Too many links).*; if a rule of another program leads to it, remove that rule in the other program/i,
    );
    await lab.sync(policy);
    await assertExact(lab, policy);
  });

  it('reports a rule that went away between observation and apply as raced, and changes nothing', async () => {
    await using lab = await makeLab();
    await lab.sync(policy);
    await lab.iptables('-F', CHAIN);
    await lab.iptables('-A', 'POSTROUTING', '-j', CHAIN);
    const plan = (await lab.dataplane.observe(family)).plan(policy);
    assert.ok(plan);
    await lab.iptables('-D', 'POSTROUTING', '-j', CHAIN);
    const before = await lab.iptables('-S');
    await assert.rejects(plan.apply(), { failure: 'raced', isRetryable: true });
    assert.equal(await lab.iptables('-S'), before);
  });

  for (const [what, odd] of [
    ['whose text is no line', ['-m', 'comment', '--comment', 'line\nbreak', '-j', CHAIN]],
    ['whose text is no UTF-8', undefined],
  ] as const)
    it(`leaves a jump alone ${what}: it only leads where the agent's own one leads`, async () => {
      await using lab = await makeLab();
      await lab.sync(policy);
      const tool = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${mode}`;
      if (odd) await lab.iptables('-I', 'POSTROUTING', '1', ...odd);
      else
        await succeed(
          lab.box.run('sh', [
            '-ec',
            `${tool} -t nat -A POSTROUTING -m comment --comment "$(printf 'a\\377b')" -g ${CHAIN}`,
          ]),
        );
      assert.equal(await lab.sync(policy), undefined);
      await lab.iptables('-F', CHAIN);
      assert.deepEqual((await lab.sync(policy))?.found, ['rules differ']);
      assert.equal(await lab.sync(policy), undefined);
    });

  it('has one jump also where a name that iptables prints as it is holds a quote', async () => {
    await using lab = await makeLab();
    await lab.sync(policy);
    await lab.iptables('-I', 'POSTROUTING', '1', '-o', 'a"b', '-j', 'RETURN');
    assert.equal(await lab.sync(policy), undefined);
    await lab.iptables('-A', 'POSTROUTING', '-o', 'a"b"c', '-j', CHAIN);
    assert.deepEqual((await lab.sync(policy))?.found, ['jump outdated']);
    await assertExact(lab, policy);
  });

  if (mode === 'nft') {
    it('keeps one jump also where foreign nft rules make POSTROUTING unreadable for iptables', async () => {
      await using lab = await makeLab();
      await lab.sync(policy);
      const table = family === 'IPv4' ? 'ip' : 'ip6';
      const foreign = 'oifname "elsewhere" masquerade';
      await lab.box.run('nft', ['add', 'rule', table, 'nat', 'POSTROUTING', foreign]);
      assert.equal(await lab.sync(policy), undefined);
      await lab.restore(`-D POSTROUTING ${JUMP}`, `-A POSTROUTING ${JUMP_OF_V2}`);
      assert.deepEqual((await lab.sync(policy))?.found, ['jump outdated']);
      assert.equal(await lab.sync(policy), undefined);
      const { stdout } = await lab.box.run('nft', ['list', 'chain', table, 'nat', 'POSTROUTING']);
      assert.equal(stdout.split(`jump ${CHAIN}`).length, 2, stdout);
      assert.ok(stdout.includes(foreign));
    });

    it('writes nothing where iptables cannot even look for a rule in POSTROUTING, and says so until it can', async () => {
      await using lab = await makeLab();
      await lab.sync(policy);
      const table = family === 'IPv4' ? 'ip' : 'ip6';
      const listed = async () =>
        (await succeed(lab.box.run('nft', ['list', 'table', table, 'nat']))).replace(
          /packets \d+ bytes \d+/g,
          '',
        );
      const native = ['add', 'rule', table, 'nat', 'POSTROUTING', 'ct state new counter accept'];
      await succeed(lab.box.run('nft', native));
      const before = await listed();
      const said = {
        failure: 'blocked',
        isRetryable: false,
        message: /neither list POSTROUTING of nat.*: \S/,
        remedy: /--backend=nftables/,
      };
      await assert.rejects(lab.sync(policyOf(family, {})), said);
      await assert.rejects(lab.sync(policy), said);
      assert.equal(await listed(), before);
      await lab.restore('-A POSTROUTING -j ACCEPT');
      await succeed(lab.box.run('nft', ['flush', 'chain', table, 'nat', 'POSTROUTING']));
      assert.deepEqual((await lab.sync(policy))?.found, ['jump missing']);
      await assertExact(lab, policy);
    });

    it('replaces an nft rule that makes our chain unreadable for iptables', async () => {
      await using lab = await makeLab();
      await lab.sync(policy);
      const [table, match] = family === 'IPv4' ? ['ip', 'ip daddr'] : ['ip6', 'ip6 daddr'];
      const address = family === 'IPv4' ? '192.0.2.1' : '2001:db8::1';
      for (const rule of [`${match} { ${address} } masquerade`, 'meta mark set 7']) {
        await lab.box.run('nft', ['add', 'rule', table, 'nat', CHAIN, rule]);
        assert.deepEqual((await lab.sync(policy))?.found, ['no readable chain']);
        await assertExact(lab, policy);
      }
    });
  }

  it('leaves one jump where two agents make it at the same time, because each looks once more', async () => {
    await using lab = await makeLab();
    const observed = [await lab.dataplane.observe(family), await lab.dataplane.observe(family)];
    for (const plan of observed.map((one) => one.plan(policy))) await plan?.apply();
    assert.deepEqual((await lab.sync(policy))?.found, ['jump outdated']);
    await assertExact(lab, policy);
  });
});

async function addForeignRules(lab: Lab): Promise<void> {
  await lab.restore(
    ':FOREIGN - [0:0]',
    '-A FOREIGN -m comment --comment "before ours" -j RETURN',
    '-A POSTROUTING -j FOREIGN',
  );
}

async function foreignRules(lab: Lab): Promise<readonly string[]> {
  return (await lab.iptables('-S'))
    .trim()
    .split(/\n(?=-)/)
    .filter((rule) => !rule.includes(CHAIN));
}

async function rulesOf(lab: Lab, chain: string): Promise<readonly string[]> {
  const start = `-A ${chain} `;
  const lines = (await lab.iptables('-S', chain)).split('\n');
  return lines.filter((line) => line.startsWith(start)).map((line) => line.slice(start.length));
}

function specsOf(policy: Policy): readonly string[] {
  return renderChain(policy, DEFAULTS).map(({ spec }) => spec);
}

/** Exactly the policy is in the chain, and exactly one right jump leads to it. */
async function assertExact(lab: Lab, policy: Policy): Promise<void> {
  assert.deepEqual(await rulesOf(lab, CHAIN), specsOf(policy));
  const jumps = (await rulesOf(lab, 'POSTROUTING')).filter((spec) => spec.endsWith(` ${CHAIN}`));
  assert.deepEqual(jumps, [JUMP]);
  assert.equal((await lab.dataplane.observe(lab.family)).plan(policy), undefined);
}
