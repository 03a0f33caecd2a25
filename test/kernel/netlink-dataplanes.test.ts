import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Counts, Dataplane } from '../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import type { Host } from '../../lib/dataplane/host.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import type { Policy } from '../../lib/policy/policy.ts';
import { type Box, createBox } from '../lab/box.ts';
import { hostNetlink, WITH_NETLINK } from '../lab/netlink.ts';
import { succeed } from '../lab/run.ts';
import { BOX_KINDS, boxHost, CHAIN, FAMILIES, type Family, isInSync, policyOf, syncOnce } from './support.ts';

const KINDS = ['iptables', 'nftables'] as const;

const OPTIONS = { chain: CHAIN, randomFully: true, toPorts: [] };

/** What commands need to name the agent's rules of one family, and addresses. */
interface Words {
  readonly iptables: string;
  /** The family of nft. */
  readonly ip: string;
  readonly type: string;
  /** The agent's table of nftables. */
  readonly table: string;
  /** Two entries of the config, and an address in each. */
  readonly entries: readonly [string, string];
  readonly inside: readonly [string, string];
  /** A network that no entry holds, and an address in it. */
  readonly other: string;
  readonly outside: string;
}

const WORDS: Readonly<Record<Family, Words>> = {
  IPv4: {
    iptables: 'iptables-nft -t nat',
    ip: 'ip',
    type: 'ipv4_addr',
    table: 'ip ip-masq-agent',
    entries: ['10.0.0.0/8', '192.168.0.0/16'],
    inside: ['10.1.2.3', '192.168.1.2'],
    other: '203.0.113.0/24',
    outside: '203.0.113.9',
  },
  IPv6: {
    iptables: 'ip6tables-nft -t nat',
    ip: 'ip6',
    type: 'ipv6_addr',
    table: 'ip6 ip-masq-agent',
    entries: ['2001:db8:1::/48', 'fd00::/8'],
    inside: ['2001:db8:1::3', 'fd00::2'],
    other: '2001:db8:ff::/48',
    outside: '2001:db8:ff::9',
  },
};

interface Lab extends AsyncDisposable {
  readonly words: Words;
  readonly netlink: Host['netlink'];
  /** Works over netlink. */
  readonly dataplane: Dataplane;
  /** What it has run. */
  readonly commands: readonly string[];
  /** Remembers nothing; iptables works with the tools alone. */
  plain(): Promise<Dataplane>;
  /** Runs commands that must succeed; returns what they print. */
  sh(script: string): Promise<string>;
}

async function createLab(kind: (typeof KINDS)[number], family: Family): Promise<Lab & { readonly box: Box }> {
  await using stack = new AsyncDisposableStack();
  const box = stack.use(await createBox(BOX_KINDS[0]));
  const { netlink } = stack.use(await hostNetlink(box));
  const { host, commands } = boxHost(box, netlink);
  const open = async (on: Host) =>
    kind === 'iptables' ? openIptables({ mode: 'nft', ...OPTIONS }, on) : openNftables(OPTIONS, on);
  const dataplane = await open(host);
  const owned = stack.move();
  return {
    box,
    words: WORDS[family],
    netlink,
    dataplane,
    commands,
    plain: () => open(boxHost(box, kind === 'nftables' ? netlink : undefined).host),
    sh: (script) => succeed(box.run('sh', ['-ec', script])),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function policy(family: Family, ...cidrs: readonly string[]): Policy {
  const text = `{cidrLimit: 5000, nonMasqueradeCIDRs: ${JSON.stringify(cidrs)}}`;
  return policyOf(family, { 'ip-masq-operator': text }, { cidrLimitMax: 5_000 });
}

/** Brings the policy into the kernel, and reads it back. */
async function settle(lab: Lab, wanted: Policy): Promise<void> {
  await syncOnce(lab.dataplane, wanted);
  assert.equal(await syncOnce(lab.dataplane, wanted), undefined);
}

/** Sends a packet to each address, which goes through POSTROUTING. */
async function send({ sh, words }: Lab, ...addresses: readonly string[]): Promise<void> {
  const ip = words.ip === 'ip' ? 'ip' : 'ip -6';
  const source = words.ip === 'ip' ? '198.51.100.1/32' : '2001:db8:5::1/128';
  const routes = [...words.entries, words.other].map((cidr) => `${ip} route add ${cidr} dev out\n`);
  // Nobody answers, but the packet has been counted.
  const packets = addresses.map((address) => `echo > /dev/udp/${address}/9\n`);
  await sh(`ip link add out type veth peer name there
    ip link set out up
    ip link set there up
    ${ip} address add ${source} dev lo
    ${routes.join('')}bash -ec '${packets.join('')}'`);
}

interface ForeignChange {
  readonly what: string;
  readonly command: (words: Words) => string;
}

const ELSEWHERE: Readonly<Record<(typeof KINDS)[number], readonly ForeignChange[]>> = {
  iptables: [
    { what: 'a chain of nat', command: ({ iptables }) => `${iptables} -N X; ${iptables} -A X -j RETURN` },
    {
      what: 'a rule before the jump',
      command: ({ iptables, other }) => `${iptables} -I POSTROUTING -s ${other} -j RETURN`,
    },
    {
      what: 'a rule that leads to another chain',
      command: ({ iptables }) => `${iptables} -A POSTROUTING -j X`,
    },
    { what: 'counts that begin again', command: ({ iptables }) => `${iptables} -Z` },
  ],
  nftables: [
    {
      what: 'a table with chains of the same names',
      command: ({ ip, type }) =>
        `nft 'table ${ip} x { set not-masqueraded { type ${type}; }; chain postrouting { type nat hook postrouting priority srcnat; accept; }; }'`,
    },
    { what: 'a chain of nat', command: ({ iptables }) => `${iptables} -A POSTROUTING -j ACCEPT` },
    {
      what: 'the table of the other family',
      command: ({ ip }) => `nft add table ${ip === 'ip' ? 'ip6' : 'ip'} ip-masq-agent`,
    },
    {
      what: 'the same elements with other counts',
      command: ({ table, entries }) =>
        `nft 'delete element ${table} not-masqueraded { ${entries[0]} }; add element ${table} not-masqueraded { ${entries[0]} counter packets 3 bytes 9 }'`,
    },
  ],
};

describe('dataplanes over netlink', { skip: !WITH_NETLINK && 'NETLINK=off' }, () => {
  for (const kind of KINDS) {
    for (const family of FAMILIES) {
      const { entries, inside, outside } = WORDS[family];
      const wanted = policy(family, ...entries);

      it(`${kind}, ${family}: a comparison tells what differs, and only that`, async () => {
        await using lab = await createLab(kind, family);
        await settle(lab, wanted);
        const before = lab.commands.length;
        for (const { what, command } of ELSEWHERE[kind]) {
          await lab.sh(command(lab.words));
          assert.equal(await isInSync(lab.dataplane, wanted), true, what);
        }
        await send(lab, inside[0], outside);
        assert.equal(await isInSync(lab.dataplane, wanted), true, 'packets');
        assert.equal(lab.commands.length, before);
      });

      it(`${kind}, ${family}: the counts are those that the tool reads`, async () => {
        await using lab = await createLab(kind, family);
        await settle(lab, wanted);
        await send(lab, inside[0], inside[0], inside[1], outside);
        const before = lab.commands.length;
        const counts = await lab.dataplane.count(wanted);
        assert.equal(lab.commands.length, before);
        assert.deepEqual(counts.rules, (await (await lab.plain()).count(wanted)).rules);
        assert.deepEqual(packetsOf(counts), { [entries[0]]: 2n, [entries[1]]: 1n, else: 1n });
      });
    }
  }
});

/** What was counted, by the entry. */
function packetsOf({ rules }: Counts): Readonly<Record<string, bigint>> {
  const counted = rules.filter(({ packets }) => packets > 0n);
  return Object.fromEntries(counted.map(({ entry, packets }) => [entry?.prefix.text ?? 'else', packets]));
}

describe('the set over netlink', { skip: !WITH_NETLINK && 'NETLINK=off' }, () => {
  for (const family of FAMILIES) {
    const { entries, table, outside } = WORDS[family];
    const alone = `${outside}/${family === 'IPv4' ? 32 : 128}`;
    const wanted = policy(family, ...entries);

    for (const [what, change, command] of [
      [
        'an element that is to be added is there (EEXIST)',
        policy(family, ...entries, alone),
        `nft add element ${table} not-masqueraded { ${alone} }`,
      ],
      [
        'an element that is to be removed is gone (ENOENT)',
        policy(family, entries[1]),
        `nft delete element ${table} not-masqueraded { ${entries[0]} }`,
      ],
    ] as const) {
      it(`${family}: a change fails as a whole if ${what}, and the next attempt succeeds`, async () => {
        await using lab = await createLab('nftables', family);
        await settle(lab, wanted);
        const plan = (await lab.dataplane.observe(family)).plan(change);
        assert.ok(plan);
        await lab.sh(command);
        const before = await lab.sh('nft list ruleset');
        const isRace = (error: unknown) => error instanceof DataplaneError && error.failure === 'raced';
        await assert.rejects(plan.apply(), isRace);
        assert.equal(await lab.sh('nft list ruleset'), before);
        await syncOnce(lab.dataplane, change);
        assert.equal(await syncOnce(await lab.plain(), change), undefined);
        assert.equal(await syncOnce(lab.dataplane, change), undefined);
      });
    }

    it(`${family}: elements that stay keep their counts, however many go`, async () => {
      await using lab = await createLab('nftables', family);
      const cidrs = Array.from({ length: 2_000 }, (_, index) =>
        family === 'IPv4'
          ? `10.${index >> 7}.${2 * (index & 127)}.0/24`
          : `fd00:${(2 * index).toString(16)}::/32`,
      );
      const all = policy(family, ...cidrs);
      await settle(lab, all);
      const counted = all.entries.map(
        ({ prefix }, index) => `${prefix.text} counter packets ${index + 1} bytes 0`,
      );
      const set = `${table} not-masqueraded`;
      await lab.sh(`nft -f - <<END\nflush set ${set}\nadd element ${set} { ${counted.join(', ')} }\nEND`);
      assert.equal(await isInSync(lab.dataplane, all), true);
      for (const left of [cidrs.slice(1), cidrs.slice(1_500), cidrs.slice(1_500).filter((_, n) => n % 2)]) {
        const fewer = policy(family, ...left);
        assert.equal((await syncOnce(lab.dataplane, fewer))?.remakes, false);
        const counts = await lab.dataplane.count(fewer);
        const expected = all.entries.map(({ prefix }, index) => [prefix.text, BigInt(index + 1)] as const);
        const kept = new Set(fewer.entries.map(({ prefix }) => prefix.text));
        assert.deepEqual(packetsOf(counts), Object.fromEntries(expected.filter(([text]) => kept.has(text))));
        assert.deepEqual(counts.rules, (await (await lab.plain()).count(fewer)).rules);
      }
    });
  }
});
