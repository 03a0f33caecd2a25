import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { NodeLab } from '../e2e/support.ts';
import { PROTOCOLS } from '../lab/edits.ts';
import { comparable } from '../lab/kernel-state.ts';
import { RELEASES, type Release, withoutTools } from '../lab/releases.ts';
import { flagsOf, nodeWith, printed, RANGES_OF_ALL, SETTINGS, syncOnce } from './support.ts';

for (const release of RELEASES) {
  describe(`nft of ${release}`, { concurrency: true, skip: withoutTools(release) }, () => {
    for (const [what, setting] of Object.entries(SETTINGS)) {
      it(`lists the agent's tables as it lists those that nft has made, ${what}`, async () => {
        await using node = await nodeWith(setting);
        await using other = await nodeWith(setting);
        await syncOnce(node, ...flagsOf(setting));
        const { stdout } = await other.agent('render', '--format=nftables', ...flagsOf(setting));
        await other.nft(stdout);
        assert.equal(await tables(node, release), await tables(other, release));
        JSON.parse(await printed(node, release, '-j', 'list', 'ruleset'));
      });
    }

    it("shows the agent's addresses and comments to people", async () => {
      const setting = SETTINGS['all rules'];
      await using node = await nodeWith(setting);
      await syncOnce(node, ...flagsOf(setting));
      const listing = await printed(node, release, 'list', 'ruleset');
      for (const range of RANGES_OF_ALL) assert.match(listing, new RegExp(`[ \\t]${literal(range)}[ ,]`));
      for (const [, body = ''] of listing.matchAll(/^\t?(?:table|set|chain) \S.*\{\n((?:\t+.*\n)*)/gm))
        assert.match(body, /^\t+comment "ip-masq-agent: [^"]+"$/m);
      const rules = listing.split('\n').filter((line) => /\b(?:return|masquerade|drop|snat to)\b/.test(line));
      assert.ok(rules.length > 20, listing);
      for (const rule of rules) assert.match(rule, / comment "ip-masq-agent: [^"]+"$/);
    });
  });
}

/** Without what is only a matter of line breaks, and without the order of chains. */
async function tables(node: NodeLab, release: Release): Promise<string> {
  const listings = PROTOCOLS.map((protocol) =>
    printed(node, release, 'list', 'table', protocol, 'ip-masq-agent'),
  );
  return (await Promise.all(listings)).map((text) => comparable(text).replace(/,\s+/g, ', ')).join('\n');
}

function literal(text: string): string {
  return text.replaceAll('.', '\\.');
}
