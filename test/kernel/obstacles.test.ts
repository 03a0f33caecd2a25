import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import { verdictAt } from '../../lib/dataplane/kernel-verdicts.ts';
import { addressFrom } from '../unit/cidr/support.ts';
import { BOX_KINDS, createLab, FAMILIES, IP, type Lab, ownTable, policyOf, settle } from './support.ts';

const WAKE = (table: string) => `add table ${table} { }`;
const ACCEPT = (table: string) => `chain ${table} POSTROUTING { policy accept; }`;
const DELETE = (table: string) => `flush chain ${table} POSTROUTING; delete chain ${table} POSTROUTING`;

/** What another program has made with nft, the beginning of what is said about it, and how that program mends it. */
const OBSTACLES = [
  ['{ flags dormant; }', 'is dormant', WAKE],
  [
    '{ chain POSTROUTING { type nat hook postrouting priority 100; policy drop; }; }',
    'the policy of the chain',
    ACCEPT,
  ],
  [
    '{ chain POSTROUTING { type nat hook postrouting priority 50; }; }',
    'type nat, hook 4, priority 50',
    DELETE,
  ],
  [
    '{ chain POSTROUTING { type filter hook postrouting priority 100; }; }',
    'type filter, hook 4, priority 100',
    DELETE,
  ],
  ['{ chain POSTROUTING { type nat hook input priority 100; }; }', 'type nat, hook 1, priority 100', DELETE],
  ['{ chain POSTROUTING { }; }', 'it has no hook', DELETE],
] as const;

describe('a table nat that another program has changed', () => {
  for (const family of FAMILIES) {
    const table = `${IP[family]} nat`;
    const policy = policyOf(family, {});
    const nft = async (lab: Lab, ...args: readonly string[]) => {
      const { code, stderr } = await lab.box.run('nft', args);
      assert.equal(code, 0, stderr);
    };
    const refusal = (lab: Lab) =>
      lab.sync(policy).then(
        () => assert.fail('the rules were written'),
        (error: unknown) => {
          assert.ok(error instanceof DataplaneError && error.failure === 'blocked', String(error));
          return error;
        },
      );

    for (const [change, said, mend] of OBSTACLES)
      it(`${family}: ${change} is refused until its program mends it`, async () => {
        await using lab = await createLab(BOX_KINDS[0] ?? 'userns', 'nft', family);
        await nft(lab, `table ${table} ${change}`);
        const { message, remedy } = await refusal(lab);
        assert.ok(message.includes(said), message);
        // No command: it would change what the agent did not write.
        assert.match(remedy, /^find out which program has (?!.*nft )/);
        await nft(lab, mend(table));
        assert.ok(await lab.sync(policy));
        assert.equal(await lab.sync(policy), undefined);
      });

    it(`${family}: rules without an effect are not shown as if they had one, and can be removed`, async () => {
      await using lab = await createLab(BOX_KINDS[0] ?? 'userns', 'nft', family);
      await lab.sync(policy);
      await nft(lab, `add table ${table} { flags dormant; }`);
      await refusal(lab);
      const verdicts = (await lab.dataplane.observe(family)).verdicts();
      const address = addressFrom(family === 'IPv4' ? '192.0.2.1' : '2001:db8::1');
      assert.match(verdictAt(verdicts, address).kernelRule ?? '', /is dormant/);
      assert.ok(await lab.remove());
      assert.equal(await lab.remove(), undefined);
    });

    it(`${family}: a process that owns it is named, and the rules are written once it has ended`, async () => {
      await using lab = await createLab(BOX_KINDS[0] ?? 'userns', 'nft', family);
      using owner = await ownTable(lab.box, table);
      assert.ok((await refusal(lab)).message.includes(`(netlink port ${owner.pid}, `));
      await owner.end();
      await settle(lab.dataplane, policy);
    });
  }
});
