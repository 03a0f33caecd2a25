import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { parseAddress } from '../../lib/cidr/address.ts';
import type { Dataplane } from '../../lib/dataplane/dataplane.ts';
import { verdictAt } from '../../lib/dataplane/kernel-verdicts.ts';
import { NODE } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import {
  configOf,
  createPacketLab,
  DATAPLANES,
  NO_LAB,
  openDataplane,
  type PacketLab,
  sync,
} from './support.ts';

const CONFIG = configOf('nonMasqueradeCIDRs: [10.0.0.0/8]\n');

/** What is read of them is written as a letter each: `k` if they keep their address, `m`, `?` if it cannot be told. */
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
  ['nothing', 'kmmm', ''],
  ['no jump', 'kkkk', UNHOOK],
  ['a jump of some destinations', '????', `${UNHOOK}\n${jump('-d 8.8.8.8')}`],
  ['a way through another chain, and a jump', 'kmmm', `${VIA}\n${jump('-m addrtype ! --dst-type LOCAL')}`],
  ['a rule of another program', '????', 'iptables -I IP-MASQ-AGENT -p udp -j MARK --set-mark 4'],
];

const nftJump = (match: string) =>
  `${UNHOOK}\nnft add rule ip nat POSTROUTING ${match} jump IP-MASQ-AGENT` as const;

const IN_NFT_MODE: readonly Case[] = [
  ...IN_IPTABLES,
  ['a jump behind a log', '????', nftJump('log prefix "x"')],
  ['another unreadable rule', '????', `${UNHOOK}\nnft add rule ip nat POSTROUTING oifname "x" masquerade`],
  [
    'an unreadable rule beside the jump',
    'kmmm',
    'nft add rule ip nat POSTROUTING meta l4proto sctp log masquerade',
  ],
  ['a chain that iptables cannot read', '????', 'nft insert rule ip nat IP-MASQ-AGENT ct mark 7 return'],
  ['a mark', '????', 'nft insert rule ip nat IP-MASQ-AGENT meta mark set 7'],
];

const TABLE = 'ip ip-masq-agent';
const CHAIN = `${TABLE} postrouting`;
const table = (content: string) => `nft 'table ${TABLE} { ${content}\n}'`;
const insert = (rule: string) => `nft 'insert rule ${CHAIN} ${rule}'`;

const IN_NFTABLES: readonly Case[] = [
  ['nothing', 'kmmm', ''],
  ['a deleted table', 'kkkk', `nft delete table ${TABLE}`],
  [
    'objects that nothing uses',
    'kmmm',
    table(`
      set theirs { type ipv4_addr; elements = { 8.8.8.8 }; }
      map choices { type ipv4_addr : verdict; elements = { 8.8.8.8 : return }; }
      counter count { }
      ct helper ftp { type "ftp" protocol tcp; }
      limit slowly { rate 3/second; }
      chain aside { return; }`),
  ],
  ['another chain that packets enter', '????', table('chain more { type nat hook postrouting priority 0; }')],
  ['a jump', '????', `${table('chain aside { return; }')}\n${insert('ip saddr 10.0.0.0/8 jump aside')}`],
  ['no hook', 'kkkk', `nft 'delete chain ${CHAIN}'\n${table('chain postrouting { masquerade; }')}`],
  ['another name', '????', `nft rename chain ${CHAIN} foo`],
  ['another policy', '????', table('chain postrouting { policy drop; }')],
  ['a dormant table', 'kkkk', table('flags dormant;')],
  [
    'comments of elements',
    'kmkm',
    `nft 'add element ${TABLE} not-masqueraded { 9.9.9.9 comment "a, } 8.8.8.8, \\" }'`,
  ],
  ['no rules', 'kkkk', `nft flush chain ${CHAIN}`],
  ['a comment of several lines', '????', insert('ip daddr 8.8.8.8 return comment "x\n\t}\n\tchain y {\n"')],
  ['a foreign rule', '????', insert('ip daddr { 8.8.8.8, 9.0.0.0/8 } return')],
  ['a foreign rule behind the last one', 'kmmm', `nft 'add rule ${CHAIN} return'`],
];

const CASES = [
  ['iptables-nft', IN_NFT_MODE],
  ['iptables-legacy', IN_IPTABLES],
  ['nftables', IN_NFTABLES],
] as const;

describe('rules that were changed are read as the packets show', { concurrency: true, skip: NO_LAB }, () => {
  for (const [name, cases] of CASES) {
    for (const kind of DATAPLANES.filter((one) => one.name === name)) {
      describe(kind.name, { concurrency: 1 }, () => {
        let lab: PacketLab;
        before(async () => {
          lab = await createPacketLab(kind);
        });
        after(() => lab[Symbol.asyncDispose]());
        const onNode = (input: string) => succeed(lab.network.node.run('sh', ['-e', '-s'], { input }));

        for (const [what, expected, commands] of cases) {
          it(what, async () => {
            await onNode(`nft flush ruleset\n${name === 'iptables-legacy' ? EMPTY_LEGACY : ''}`);
            const dataplane = await openDataplane(kind, lab.host);
            await sync(dataplane, CONFIG);
            await onNode(commands.replaceAll(/^iptables /gm, `${name} -t nat `));
            assert.equal(await readings(lab, dataplane), expected);
          });
        }
      });
    }
  }
});

/** Leaves nothing of the case before. */
const EMPTY_LEGACY = ['iptables', 'ip6tables']
  .map((tool) => `${tool}-legacy -t nat -F; ${tool}-legacy -t nat -X\n`)
  .join('');

/** How the rules are read, after a look at packets: they agree with every verdict that is told. */
async function readings({ network }: PacketLab, dataplane: Dataplane): Promise<string> {
  const verdicts = (await dataplane.observe('IPv4')).verdicts();
  const read = ADDRESSES.map((text) => {
    const address = parseAddress(text);
    assert.ok(address);
    const { state, verdict } = verdictAt(verdicts, address);
    return { text, letter: state === 'changed' ? '?' : verdict === 'masqueraded' ? 'm' : 'k' };
  });
  const told = read.filter(({ letter }) => letter !== '?');
  const seen = await network.sourcesSeen(told.map(({ text }) => text));
  assert.deepEqual(
    told.map(({ text, letter }) => `${text} ${letter}`),
    told.map(({ text }, index) => `${text} ${seen[index]?.address === NODE.IPv4 ? 'm' : 'k'}`),
  );
  return read.map(({ letter }) => letter).join('');
}
