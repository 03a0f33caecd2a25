import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { createFreshStates, type Setting } from '../e2e/fresh.ts';
import { oldTool, RELEASES, withoutTools } from '../lab/releases.ts';
import { configure, feed, flagsOf, nodeWith, ownTables, SETTINGS, syncOnce } from './support.ts';

const COUNT = 20_000;
const CHANGED = 500;

/** Sets of every kind that nft of all releases knows, one of each by `type` and by `typeof`, and rules that use them. */
const FOREIGN = ['ip', 'inet', 'ip6']
  .map((family) => {
    const protocol = family === 'ip6' ? 'ip6' : 'ip';
    const [type, one, range] =
      protocol === 'ip6'
        ? ['ipv6_addr', '2001:db8::1', '2001:db8:1::/48']
        : ['ipv4_addr', '192.0.2.1', '198.51.100.0/24'];
    return `table ${family} foreign {
  set plain { type ${type}; }
  set filled { type ${type}; elements = { ${one} }; }
  set ranges { type ${type}; flags interval; elements = { ${range} }; }
  set pairs { type ${type} . inet_service; elements = { ${one} . 80 }; }
  set range-pairs { type ${type} . inet_service; flags interval; elements = { ${range} . 80-90 }; }
  set fading { type ${type}; flags dynamic, timeout; timeout 1h; size 9; }
  set of-field { typeof ${protocol} daddr; elements = { ${one} }; }
  set of-fields { typeof ${protocol} daddr . tcp dport; flags interval; elements = { ${range} . 80-90 }; }
  map to-verdict { type ${type} : verdict; elements = { ${one} : accept }; }
  map to-mark { type ${type} : mark; flags interval; elements = { ${range} : 7 }; }
  map of-field-to-mark { typeof ${protocol} daddr : meta mark; elements = { ${one} : 7 }; }
  chain forward {
    type filter hook forward priority 0; policy accept;
    ${protocol} daddr @ranges counter accept
    ${protocol} daddr . tcp dport @of-fields counter accept
    ${protocol} daddr vmap @to-verdict
    ${protocol} daddr { ${one}, ${range} } meta mark set ${protocol} daddr map @to-mark
    ${protocol} daddr . tcp dport { ${one} . 80 } add @fading { ${protocol} saddr }
  }
}
`;
  })
  .join('');

describe(`${COUNT} CIDRs are written and changed beside sets of nft of`, { concurrency: 2 }, () => {
  const fresh = createFreshStates();
  after(async () => (await fresh)[Symbol.asyncDispose]());
  for (const release of RELEASES) {
    for (const prefix of ['20.', 'fd00:'] as const) {
      it(`${release}, ${prefix === '20.' ? 'IPv4' : 'IPv6'}`, { skip: withoutTools(release) }, async () => {
        await using node = await nodeWith(manyRanges(prefix, 0));
        await feed(node, release, FOREIGN);
        const rule = ['-d', '192.0.2.0/24', '-m', 'comment', '--comment', 'foreign', '-j', 'ACCEPT'];
        await node.run(oldTool(release, 'iptables-nft'), '-t', 'nat', '-A', 'POSTROUTING', ...rule);
        for (const changed of [0, CHANGED]) {
          const setting = manyRanges(prefix, changed);
          await configure(node, setting);
          await syncOnce(node, ...flagsOf(setting));
          const own = await ownTables(node);
          // An assertion of equality would take minutes to show where they differ.
          assert.ok(
            own === (await (await fresh).of(setting)),
            `other than beside nothing:\n${own.slice(0, 2_000)}`,
          );
        }
      });
    }
  }
});

/**
 * A setting whose ranges never touch.
 *
 * @param changed so many ranges are others than in the setting without changes
 */
function manyRanges(prefix: '20.' | 'fd00:', changed: number): Setting {
  const ranges = Array.from({ length: COUNT }, (_, index) => {
    const place = 3 * index + (index < changed ? 1 : 0);
    const [high, low] = [place >> 8, place & 0xff];
    return prefix === '20.' ? `20.${high}.${low}.0/24` : `fd00::${high}:${low}:0/112`;
  });
  return {
    ...SETTINGS['few rules'],
    config: JSON.stringify({ nonMasqueradeCIDRs: ranges }),
    flags: ['--enable-ipv6', `--cidr-limit=${COUNT}`, `--cidr-limit-max=${COUNT}`],
  };
}
