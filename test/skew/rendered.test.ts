import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RELEASES, withoutTools } from '../lab/releases.ts';
import { feed, flagsOf, nodeWith, SETTINGS, syncOnce, writesNothing } from './support.ts';

for (const release of RELEASES) {
  describe(`what render prints, loaded by nft of ${release}`, {
    concurrency: true,
    skip: withoutTools(release),
  }, () => {
    for (const [what, setting] of Object.entries(SETTINGS)) {
      it(`is what the agent wants: diff shows nothing, and a sync writes nothing, ${what}`, async () => {
        await using node = await nodeWith(setting);
        const flags = flagsOf(setting);
        const { stdout } = await node.agent('render', '--format=nftables', ...flags);
        await feed(node, release, stdout);
        await writesNothing(node, async () => {
          const { code, stdout: shown, stderr } = await node.agent('diff', ...flags);
          assert.equal(code, 0, `${shown}${stderr}`);
          await syncOnce(node, ...flags);
        });
      });
    }
  });
}
