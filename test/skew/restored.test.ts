import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createFreshStates } from '../e2e/fresh.ts';
import type { NodeLab } from '../e2e/support.ts';
import { RELEASES, type Release, withoutTools } from '../lab/releases.ts';
import {
  becomes,
  feed,
  flagsOf,
  listsWellEverywhere,
  nodeWith,
  ownTables,
  printed,
  SETTINGS,
  syncOnce,
  writesNothing,
} from './support.ts';

const SETTING = SETTINGS['all rules'];
const FLAGS = flagsOf(SETTING);

for (const release of RELEASES) {
  describe(`after nft of ${release} has saved and restored the agent's tables`, {
    concurrency: true,
    skip: withoutTools(release),
  }, () => {
    it('one sync makes what it makes of an empty kernel, the next writes nothing', async () => {
      await using fresh = await createFreshStates();
      await using node = await restoredBy(release);
      await syncOnce(node, ...FLAGS, '--backend=nftables');
      assert.equal(await ownTables(node), await fresh.of(SETTING));
      await listsWellEverywhere(node);
      await writesNothing(node, async () => {
        await syncOnce(node, ...FLAGS, '--backend=nftables');
        const { code, stdout, stderr } = await node.agent('diff', ...FLAGS);
        assert.equal(code, 0, `${stdout}${stderr}`);
      });
    });

    for (const command of ['diff', 'explain --live 10.2.3.4 fd02::1']) {
      it(`${command} reads them`, async () => {
        await using node = await restoredBy(release);
        const { code, stdout, stderr } = await node.agent(...command.split(' '), ...FLAGS);
        assert.ok(code === 0 || code === 4, `${code}: ${stderr}`);
        assert.match(stdout, command === 'diff' ? /^IPv6, /m : /kernel (?:agrees|DISAGREES)/);
      });
    }

    it('cleanup removes them', async () => {
      await using node = await restoredBy(release);
      const { code, signal, stderr } = await node.agent('cleanup');
      assert.equal(signal ?? code, 0, stderr);
      assert.equal(await printed(node, release, 'list', 'ruleset'), '');
    });

    it('a running agent makes them what it makes of an empty kernel', async () => {
      await using fresh = await createFreshStates();
      await using node = await nodeWith(SETTING);
      const wanted = await fresh.of(SETTING);
      const agent = node.start(...FLAGS, '--resync-interval=1h');
      await becomes(node, agent, wanted);
      // In one transaction, as nftables.service does: in the moment between two the agent would write its own.
      await feed(node, release, `flush ruleset\n${await printed(node, release, 'list', 'ruleset')}`);
      await becomes(node, agent, wanted);
      await agent.stop();
      assert.equal(await ownTables(node), wanted);
      await listsWellEverywhere(node);
    });
  });
}

/** A node whose tables the agent has written once, and then the release's nft. */
async function restoredBy(release: Release): Promise<NodeLab> {
  const node = await nodeWith(SETTING);
  await syncOnce(node, ...FLAGS);
  const saved = await printed(node, release, 'list', 'ruleset');
  await printed(node, release, 'flush', 'ruleset');
  await feed(node, release, saved);
  return node;
}
