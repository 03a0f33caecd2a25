import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RELEASES, type Release, withoutTools } from '../lab/releases.ts';
import { feed, flagsOf, nodeWith, SETTINGS, syncOnce, writesNothing } from './support.ts';

/** Those whose nft keeps the types of keys with a set, on which that of others dies. The agent does not let them stay. */
const WITH_TYPES: readonly Release[] = ['trixie', 'sid'];

for (const release of RELEASES) {
  describe(`what render prints, loaded by nft of ${release}`, {
    concurrency: true,
    skip: withoutTools(release),
  }, () => {
    const hasTypes = WITH_TYPES.includes(release);
    const result = hasTypes ? 'differs in the types of keys, and one sync removes them' : 'is what is wanted';
    for (const [what, setting] of Object.entries(SETTINGS)) {
      it(`${result}, ${what}`, async () => {
        await using node = await nodeWith(setting);
        const flags = flagsOf(setting);
        const { stdout } = await node.agent('render', '--format=nftables', ...flags);
        await feed(node, release, stdout);
        const difference = await node.agent('diff', ...flags);
        assert.equal(difference.code, hasTypes ? 4 : 0, `${difference.stdout}${difference.stderr}`);
        if (hasTypes) {
          const changed = difference.stdout.split('\n').filter((line) => /^[-+] /.test(line));
          assert.deepEqual(
            changed.filter((line) => line.startsWith('-') && !line.includes('user data')),
            [],
            difference.stdout,
          );
          await syncOnce(node, ...flags);
        }
        await writesNothing(node, async () => {
          const { code, stdout: shown, stderr } = await node.agent('diff', ...flags);
          assert.equal(code, 0, `${shown}${stderr}`);
          await syncOnce(node, ...flags);
        });
      });
    }
  });
}
