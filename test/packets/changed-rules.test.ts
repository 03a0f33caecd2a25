import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseAddress } from '../../lib/cidr/address.ts';
import { verdictAt } from '../../lib/dataplane/kernel-fates.ts';
import { NODE } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { configOf, createPacketLab, DATAPLANES, NO_LAB, type PacketLab, sync } from './support.ts';

const CONFIG = configOf('nonMasqueradeCIDRs: [10.0.0.0/8]\n');

/** What is read of them is written as a letter each: `r` and `m` for the verdicts, `?` if it cannot be told. */
const ADDRESSES = ['10.9.9.9', '8.8.8.8', '9.9.9.9', '203.0.113.9'];

/** What somebody does to the agent's rules, a command a line, and how they are read then. */
type Case = readonly [what: string, expected: string, commands: string];

const UNHOOK = 'iptables -F POSTROUTING';
const VIA = `${UNHOOK}
iptables -N VIA
iptables -A POSTROUTING -j VIA
iptables -A VIA -j IP-MASQ-AGENT`;
const jump = (match: string) => `iptables -A POSTROUTING ${match} -j IP-MASQ-AGENT`;

const IN_IPTABLES: readonly Case[] = [
  ['nothing', 'rmmm', ''],
  ['no jump', 'rrrr', UNHOOK],
  ['a jump of some destinations', 'rmrr', `${UNHOOK}\n${jump('-d 8.8.8.8')}`],
  ['a jump of the local ones', 'rrrr', `${UNHOOK}\n${jump('-m addrtype --dst-type LOCAL')}`],
  ['a way through another chain', 'r???', VIA],
  ['a way through another chain, and a jump of some destinations', 'rm??', `${VIA}\n${jump('-d 8.8.8.8')}`],
  ['a way through another chain, and a jump', 'rmmm', `${VIA}\n${jump('-m addrtype ! --dst-type LOCAL')}`],
  [
    'rules behind which a packet goes on',
    'rmmm',
    ['LOG', 'MARK --set-mark 4', 'CONNMARK --set-mark 4', 'NFLOG']
      .map((target) => `iptables -I IP-MASQ-AGENT -p udp -j ${target}`)
      .join('\n'),
  ],
  [
    'a rule about local destinations',
    'rmmm',
    'iptables -I IP-MASQ-AGENT -m addrtype --dst-type LOCAL -j RETURN',
  ],
];

const nftJump = (match: string) =>
  `${UNHOOK}\nnft add rule ip nat POSTROUTING ${match} jump IP-MASQ-AGENT` as const;

const IN_NFT_MODE: readonly Case[] = [
  ...IN_IPTABLES,
  ['TRACE', 'rmmm', 'iptables -I IP-MASQ-AGENT -j TRACE'],
  ['a jump that iptables cannot read', 'r???', nftJump('ct mark 7')],
  ['a jump behind a log', 'r???', nftJump('log prefix "x"')],
  ['a jump of some sources', 'r???', nftJump('ip daddr 0.0.0.0/1 fib saddr type local')],
  ['a jump with a mark', 'r???', nftJump('meta mark set 7')],
  ['another unreadable rule', 'rrrr', `${UNHOOK}\nnft add rule ip nat POSTROUTING oifname "x" masquerade`],
  [
    'an unreadable rule beside the jump',
    'rmmm',
    'nft add rule ip nat POSTROUTING meta l4proto sctp log masquerade',
  ],
  ['an unreadable chain', '????', 'nft insert rule ip nat IP-MASQ-AGENT ct mark 7 return'],
  ['a mark', '????', 'nft insert rule ip nat IP-MASQ-AGENT meta mark set 7'],
  [
    'an unreadable chain behind another',
    '????',
    `${VIA}\nnft insert rule ip nat IP-MASQ-AGENT ct mark 7 return`,
  ],
];

const LAB_OF = (name: string) => DATAPLANES.filter((kind) => kind.name === name);

describe('rules that were changed are read as the packets show', { concurrency: true, skip: NO_LAB }, () => {
  for (const [name, cases] of [
    ['iptables-nft', IN_NFT_MODE],
    ['iptables-legacy', IN_IPTABLES],
  ] as const) {
    for (const kind of LAB_OF(name)) {
      describe(kind.name, { concurrency: 1 }, () => {
        for (const [what, expected, commands] of cases) {
          it(what, async () => {
            await using lab = await createPacketLab(kind);
            await sync(lab.dataplane, CONFIG);
            const script = commands.replaceAll(/^iptables /gm, `${name} -t nat `);
            await succeed(lab.network.node.run('sh', ['-e', '-s'], { input: script }));
            assert.equal(await readings(lab), expected);
          });
        }
      });
    }
  }
});

/** How the rules are read, after a look at packets: they agree with every verdict that is told. */
async function readings({ dataplane, network }: PacketLab): Promise<string> {
  const fates = (await dataplane.observe('IPv4')).fates();
  const read = ADDRESSES.map((text) => {
    const address = parseAddress(text);
    assert.ok(address);
    const { state, verdict } = verdictAt(fates, address);
    return { text, letter: state === 'changed' ? '?' : verdict.charAt(0) };
  });
  const told = read.filter(({ letter }) => letter !== '?');
  const seen = await network.sourcesSeen(told.map(({ text }) => text));
  assert.deepEqual(
    told.map(({ text, letter }) => `${text} ${letter}`),
    told.map(({ text }, index) => `${text} ${seen[index]?.address === NODE.IPv4 ? 'm' : 'r'}`),
  );
  return read.map(({ letter }) => letter).join('');
}
