import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import type { EntryCount } from '../../lib/dataplane/dataplane.ts';
import type { InvalidPackets } from '../../lib/dataplane/options.ts';
import type { Flow } from '../../lib/netlink/conntrack.ts';
import { compilePolicy } from '../../lib/policy/policy.ts';
import { eventually } from '../e2e/support.ts';
import { FAMILIES, type Family } from '../kernel/support.ts';
import type { Box } from '../lab/box.ts';
import { startTracker } from '../lab/helpers.ts';
import { readLines } from '../lab/lines.ts';
import { NODE, POD } from '../lab/network.ts';
import { owning } from '../lab/owning.ts';
import { succeed } from '../lab/run.ts';
import { STREAM_PORT, startStreams } from '../lab/stream.ts';
import { configOf, createPacketLab, NFTABLES, NO_LAB, sync } from './support.ts';

/** The node has addresses in the ranges too, as a bridge of pods gives it one. */
const CONFIG = configOf(
  'nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]\nmasqueradeFromCIDRs: [10.244.0.0/16, 192.0.2.0/24, 172.16.0.0/12, "fd00:244::/32", "2001:db8::/32"]\nnonMasqueradeFromCIDRs: [172.31.0.0/24, "2001:db8:99::/48"]\n',
);
/** An address of the pod whose packets are never masqueraded. */
const ELSEWHERE = { IPv4: '172.31.0.9', IPv6: '2001:db8:99::9' } as const;
const INSIDE = { IPv4: ['10.1.0.1', '10.2.0.1'], IPv6: ['fd00:1::1', 'fd00:2::1'] } as const;

const STRAY = fileURLToPath(new URL('../lab/stray.pl', import.meta.url));
const ESTABLISHED_TIMEOUT = '/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established';
/** linux/netfilter/nf_conntrack_tcp.h */
const ESTABLISHED = 3;
const RST = '4';
const FIN_ACK = '17';

/** Packets with each flag, and connections, in each family. */
const STRAYS = 200;
const IDLE = 150;
const BUSY = 25;
const ORDINARY = 250;
/** What conntrack refuses at least in each family. A busy connection may go on with a new entry. */
const LEAST = 2 * STRAYS + IDLE;

describe('packets that conntrack refuses', { concurrency: true, skip: NO_LAB }, () => {
  it('leave with the address of their pod if no rule looks at them', async () => {
    await using lab = await createInvalidLab('off');
    await lab.refuse();
    for (const [family, leaked] of Object.entries(await lab.seen('leaked')))
      assert.ok(leaked >= LEAST, `${family}: ${leaked}`);
    assert.deepEqual(await lab.counts(), []);
  });

  it('are counted, each that leaves and nothing else, from zero if the rules are written again', async () => {
    await using lab = await createInvalidLab('count');
    await lab.connect();
    assert.deepEqual(await lab.counted(), NONE);
    await lab.refuse();
    await lab.sendOthers();
    await eventually(
      async () => isDeepStrictEqual(await lab.counted(), await lab.seen('leaked')),
      () => 'each that leaves to be counted',
    );
    const before = await lab.counts();
    assert.equal(await lab.toInside(), 0n);
    for (const { packets } of before) assert.ok(packets >= LEAST, `${packets}`);
    await lab.repair('postrouting-invalid');
    assert.deepEqual(await lab.counted(), NONE);
  });

  it('are dropped, but no ordinary packet, none of the node, and none to what is inside or from elsewhere', async () => {
    await using lab = await createInvalidLab('drop');
    await Promise.all([lab.connect(), lab.refuse()]);
    await lab.sendOthers();
    await lab.connect();
    assert.deepEqual(await lab.seen('leaked'), NONE);
    for (const { packets } of await lab.counts()) assert.ok(packets >= LEAST, `${packets}`);
  });
});

/** The pod sends a neighbour solicitation to each address, as a bridge may pass it on. */
const SOLICIT = `use Socket qw(:all);
socket(S, AF_INET6, SOCK_RAW, 58) or die;
for (@ARGV) { my $to = inet_pton(AF_INET6, $_); send(S, pack("CCnNa16", 135, 0, 0, 0, $to), 0, pack_sockaddr_in6(0, $to)) or die }`;

const UNTRACKED = `table inet untracked {
  chain prerouting { type filter hook prerouting priority raw; iifname "pod0" meta l4proto udp notrack; }
}`;

const UDP_AND_DISCOVERY = `table inet seen {
  counter datagrams { }
  counter discovery { }
  chain prerouting {
    type filter hook prerouting priority raw;
    ip saddr ${POD.IPv4} udp dport > 0 counter name datagrams
    ip6 saddr ${POD.IPv6} udp dport > 0 counter name datagrams
    ip6 saddr ${POD.IPv6} icmpv6 type nd-neighbor-solicit counter name discovery
  }
}`;

describe('packets that are not tracked', { skip: NO_LAB }, () => {
  for (const [mode, udp] of [
    ['off', 4],
    ['count', 4],
    ['drop', 0],
  ] as const)
    it(`are seen with ${mode}, and neighbour discovery always leaves`, async () => {
      await using lab = await createPacketLab(NFTABLES, { invalidPackets: mode });
      const { node, pod, outside } = lab.network;
      // Even if somebody lists every source.
      const config = configOf('nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeFromCIDRs: [0.0.0.0/0, "::/0"]\n');
      await sync(lab.dataplane, config);
      await succeed(node.run('nft', ['-f', '-'], { input: UNTRACKED }));
      await succeed(outside.run('nft', ['-f', '-'], { input: UDP_AND_DISCOVERY }));
      const far = ['2606:77::1', '2606:77::2'];
      await succeed(pod.run('perl', ['-e', SOLICIT, ...far]));
      const send = ['203.0.113.5', '203.0.113.6', ...far].map((one) => `echo > /dev/udp/${one}/9`).join(';');
      await succeed(pod.run('bash', ['-c', send]));
      const seen = async (name: string) => {
        const { nftables } = JSON.parse(
          await succeed(outside.run('nft', ['-j', 'list', 'counter', 'inet', 'seen', name])),
        );
        return nftables.find((one: { counter?: object }) => one.counter !== undefined).counter.packets;
      };
      assert.deepEqual([await seen('discovery'), await seen('datagrams')], [2, udp]);
      const all = FAMILIES.map((family) => lab.dataplane.count(compilePolicy(config, family)));
      const counts = (await Promise.all(all)).flat();
      const counted = counts.filter(({ countedAs }) => countedAs === 'invalid').map(({ packets }) => packets);
      assert.deepEqual(counted, mode === 'off' ? [] : [2n, 2n]);
      // The node still finds its neighbours, although it has forgotten them.
      await succeed(node.run('ip', ['-6', 'neighbour', 'flush', 'all']));
      assert.equal(
        (await lab.network.sourcesSeen(['2606:78::1'], { protocol: 'tcp' }))[0]?.address,
        NODE.IPv6,
      );
    });
});

type Numbers = Readonly<Partial<Record<Family, number>>>;

const NONE = numbers(() => 0);

function numbers(of: (family: Family) => number): Numbers {
  return Object.fromEntries(FAMILIES.map((family) => [family, of(family)]));
}

/** What is counted outside, before anything there looks at it. */
const COUNTERS = ['leaked', 'inside', 'node', 'elsewhere'] as const;
type Counter = (typeof COUNTERS)[number];

const WITNESS = [
  'table inet witness {',
  ...FAMILIES.flatMap((family) => COUNTERS.map((what) => `counter ${what}${family} { }`)),
  'chain prerouting {',
  'type filter hook prerouting priority raw;',
  ...FAMILIES.flatMap((family) => {
    const [ip, inside] = family === 'IPv4' ? ['ip', '10.0.0.0/8'] : ['ip6', 'fd00::/8'];
    const ofNode = `${ip} daddr ${netOf(family, 5)}/${family === 'IPv4' ? 24 : 32}`;
    return [
      `${ip} saddr ${POD[family]} ${ip} daddr != ${inside} counter name leaked${family}`,
      `${ip} saddr ${POD[family]} ${ip} daddr ${inside} counter name inside${family}`,
      `${ofNode} counter name node${family}`,
      `${ip} saddr ${ELSEWHERE[family]} counter name elsewhere${family}`,
    ];
  }),
  '}',
  '}',
  '',
].join('\n');

/** Addresses outside, of which no two nets share one. */
function outsiders(family: Family, net: number, count: number): readonly string[] {
  const start = netOf(family, net).replace(/0$/, '');
  return Array.from({ length: count }, (_, index) => `${start}${index + 1}`);
}

function netOf(family: Family, net: number): string {
  return family === 'IPv4' ? `198.18.${net}.0` : `2606:${net}::`;
}

const createInvalidLab = (invalidPackets: InvalidPackets) =>
  owning(async (stack) => {
    const { network, host, dataplane } = stack.use(await createPacketLab(NFTABLES, { invalidPackets }));
    const { node, pod, outside } = network;
    const tracker = stack.use(await startTracker(node));
    const tcpFlows = async () => {
      const flows = await tracker.ask<readonly Flow[]>({ kind: 'read' });
      return flows.filter(({ protocol }) => protocol === 6);
    };
    /** Lets an entry live for so many seconds after its last packet. */
    const keepFor = (seconds: string) => node.run('tee', [ESTABLISHED_TIMEOUT], { input: seconds });
    await sync(dataplane, CONFIG);
    for (const family of FAMILIES)
      await succeed(pod.run('ip', ['address', 'add', ELSEWHERE[family], 'dev', 'lo']));
    await succeed(outside.run('nft', ['-f', '-'], { input: WITNESS }));
    const seen = async (what: Counter): Promise<Numbers> => {
      const { nftables } = JSON.parse(await succeed(outside.run('nft', ['-j', 'list', 'counters'])));
      const counters: readonly { readonly name: string; readonly packets: number }[] = nftables.flatMap(
        ({ counter }: { counter?: object }) => counter ?? [],
      );
      return numbers((family) => counters.find(({ name }) => name === what + family)?.packets ?? Number.NaN);
    };
    const allCounts = async (): Promise<readonly EntryCount[]> => {
      const all = FAMILIES.map((family) => dataplane.count(compilePolicy(CONFIG, family)));
      return (await Promise.all(all)).flat();
    };
    const counts = async () => (await allCounts()).filter(({ countedAs }) => countedAs === 'invalid');
    return {
      seen,
      /** What the agent's rules have counted of packets that conntrack refuses, by rule. */
      counts,
      /** How many packets the elements of the sets have counted, as the first ones of connections to what is inside. */
      async toInside() {
        const elements = (await allCounts()).filter(({ entry }) => entry !== undefined);
        return elements.reduce((sum, { packets }) => sum + packets, 0n);
      },
      async counted(): Promise<Numbers> {
        const all = await counts();
        return numbers((family) => Number(all[FAMILIES.indexOf(family)]?.packets));
      },
      /** Opens ordinary connections, and asserts that each is masqueraded. */
      async connect() {
        for (const family of FAMILIES) {
          const sources = await network.sourcesSeen(outsiders(family, 1, ORDINARY), { protocol: 'tcp' });
          assert.deepEqual([...new Set(sources.map(({ address }) => address))], [NODE[family]]);
        }
      },
      /** Makes the pod send what conntrack refuses: stray packets, the ends of expired connections, and what is under way. */
      async refuse() {
        for (const family of FAMILIES)
          for (const flags of [RST, FIN_ACK])
            await send(pod, flags, POD[family], outsiders(family, 2, STRAYS));
        await using streams = await startStreams(pod, outside);
        const idle = FAMILIES.flatMap((family) => outsiders(family, 3, IDLE));
        await succeed(keepFor('5'));
        await using held = await hold(pod, idle);
        await eventually(
          async () => (await tcpFlows()).every(({ tcpState }) => tcpState !== ESTABLISHED),
          () => 'the entries of idle connections to expire',
        );
        await succeed(keepFor('60'));
        const busy = FAMILIES.flatMap((family) => outsiders(family, 4, BUSY));
        await streams.advance(busy);
        for (const flow of await tcpFlows()) await tracker.ask({ kind: 'delete', flow });
        await held.end();
        await Promise.allSettled([streams.advance(busy)]);
      },
      /** Sends such packets that the agent leaves alone, and waits until all have arrived. */
      async sendOthers() {
        for (const family of FAMILIES) {
          for (const flags of [RST, FIN_ACK]) {
            await send(pod, flags, POD[family], INSIDE[family]);
            await send(node, flags, NODE[family], outsiders(family, 5, STRAYS));
            await send(pod, flags, ELSEWHERE[family], outsiders(family, 6, STRAYS));
          }
        }
        const sent = { inside: 2 * INSIDE.IPv4.length, node: 2 * STRAYS, elsewhere: 2 * STRAYS } as const;
        for (const what of ['inside', 'node', 'elsewhere'] as const)
          await eventually(
            async () =>
              isDeepStrictEqual(
                await seen(what),
                numbers(() => sent[what]),
              ),
            () => `${sent[what]} packets to arrive: ${what}`,
          );
      },
      /** Flushes one of the agent's chains, and lets the agent repair it. */
      async repair(chain: string) {
        for (const family of FAMILIES) {
          const { code } = await host.run('nft', ['flush', 'chain', WORD[family], 'ip-masq-agent', chain]);
          assert.equal(code, 0);
        }
        await sync(dataplane, CONFIG);
      },
    };
  });

const WORD = { IPv4: 'ip', IPv6: 'ip6' } as const;

async function send(
  from: Box,
  flags: string,
  source: string,
  destinations: readonly string[],
): Promise<void> {
  const input = destinations.map((one) => `${one}\n`).join('');
  await succeed(from.run('perl', [STRAY, 'send', flags, source], { input }));
}

/** Opens a connection to each, on which nothing is sent until it ends. */
async function hold(from: Box, destinations: readonly string[]) {
  const child = from.spawn('perl', [STRAY, 'hold', `${STREAM_PORT}`], { stdio: ['pipe', 'pipe', 'inherit'] });
  const { stdin, stdout } = child;
  assert.ok(stdin && stdout);
  stdin.write([...destinations, '', ''].join('\n'));
  await readLines(stdout, 'open connections').next((line) => line === 'open');
  const end = async () => {
    stdin.end();
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  };
  return { end, [Symbol.asyncDispose]: end };
}
