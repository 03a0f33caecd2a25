import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES } from '../kernel/support.ts';
import { kubeProxyTable } from '../lab/kube-proxy.ts';
import { NODE, POD } from '../lab/network.ts';
import { unnumbered } from '../lab/own-sets.ts';
import { succeed } from '../lab/run.ts';
import { RUNS } from '../lab/runs.ts';
import { configOf, createPacketLab, NFTABLES, NO_LAB, type PacketLab, sync } from './support.ts';

const CONFIG = configOf('nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]\n');
const OUTSIDE = { IPv4: '203.0.113.9', IPv6: '2606:4700::1' } as const;
const INSIDE = { IPv4: '10.1.1.1', IPv6: 'fd00:1::1' } as const;

/** Many packets at once, to and from whom they come. */
const REPEATED = Array.from({ length: 20 }, () =>
  [OUTSIDE, INSIDE].flatMap(({ IPv4, IPv6 }) => [IPv4, IPv6]),
).flat();
const REPEATED_SOURCES = REPEATED.map((_, index) => [NODE.IPv4, NODE.IPv6, POD.IPv4, POD.IPv6][index % 4]);

/** Far longer than so many rounds take. */
const PATIENCE_MS = 120_000 * RUNS;

const TABLES = ['ip', 'ip6'] as const;

const KUBE_PROXY = forBoth(kubeProxyTable);

/** Marks what comes from the pod, as kube-proxy does with packets to some Services; counts what leaves with the mark. */
const MARKS = forBoth(
  (ip) => `
    table ${ip} marks {
      counter marked { }
      counter unmarked { }
      chain forward { type filter hook forward priority 0; iifname "pod0" meta mark set meta mark | 0x4000; }
      chain leaving {
        type filter hook postrouting priority 300
        oifname "uplink0" meta l4proto udp meta mark & 0x4000 != 0 counter name marked
        oifname "uplink0" meta l4proto udp meta mark & 0x4000 == 0 counter name unmarked
      }
    }`,
);

const REPLACED = forBoth((ip) => `add table ${ip} ip-masq-agent\ndelete table ${ip} ip-masq-agent`);

describe('kube-proxy in nftables mode', { skip: NO_LAB }, () => {
  it('sees packets before the agent does, whichever of the two started last', async () => {
    await using lab = await createPacketLab(NFTABLES);
    await nft(lab, MARKS);
    await sync(lab.dataplane, CONFIG);
    let packets = 0;
    const assertUnmarked = async (what: string) => {
      for (const family of FAMILIES) {
        const seen = await lab.network.sourcesSeen([OUTSIDE[family], INSIDE[family]]);
        const addresses = seen.map(({ address }) => address);
        assert.deepEqual(addresses, [NODE[family], NODE[family]], what);
      }
      packets += 2;
      const counts = TABLES.map((ip) => ({ ip, marked: 0, unmarked: packets }));
      assert.deepEqual(await counters(lab), counts, what);
    };
    await nft(lab, KUBE_PROXY);
    await assertUnmarked('kube-proxy after the agent');
    await nft(
      lab,
      forBoth((ip) => `delete table ${ip} ip-masq-agent`),
    );
    await sync(lab.dataplane, CONFIG);
    await assertUnmarked('the agent after kube-proxy');
    await nft(lab, `${forBoth((ip) => `delete table ${ip} kube-proxy`)}${KUBE_PROXY}`);
    await assertUnmarked('kube-proxy again');
  });
});

describe('a table of the agent that others have changed', { skip: NO_LAB, timeout: PATIENCE_MS }, () => {
  /** What is done to the table, and what then differs of its chains. */
  const DAMAGES: readonly (readonly [what: string, damage: (tables: readonly string[]) => string])[] = [
    [
      'is repaired if its chain has the priority of older versions',
      (tables) => REPLACED + tables.join('').replaceAll('priority srcnat + 10;', 'priority srcnat;'),
    ],
    [
      'is repaired if it holds a foreign set',
      () => forBoth((ip) => `add set ${ip} ip-masq-agent theirs { type inet_service; }`),
    ],
    [
      'is repaired if its set has another definition',
      (tables) => REPLACED + tables.join('').replaceAll('flags interval\n', 'flags interval\nsize 1000\n'),
    ],
  ];
  for (const [what, damage] of DAMAGES)
    it(`${what}, and no packet meets no rules meanwhile`, async (test) => {
      await using lab = await createPacketLab(NFTABLES);
      const listed = () =>
        Promise.all(TABLES.map(async (ip) => unnumbered(await list(lab, `list table ${ip} ip-masq-agent`))));
      await sync(lab.dataplane, CONFIG);
      const wanted = await listed();
      let sent = 0;
      for (let time = 0; time < 10 * RUNS; time += 1) {
        await nft(lab, damage(wanted));
        assert.notDeepEqual(await listed(), wanted);
        const replacing = { isDone: false };
        const synced = sync(lab.dataplane, CONFIG).finally(() => {
          replacing.isDone = true;
        });
        while (!replacing.isDone) {
          const seen = await lab.network.sourcesSeen(REPEATED);
          assert.deepEqual(
            seen.map(({ address }) => address),
            REPEATED_SOURCES,
          );
          sent += REPEATED.length;
        }
        await synced;
        assert.deepEqual(await listed(), wanted);
      }
      assert.deepEqual(
        (await list(lab, 'list tables')).trim().split('\n').toSorted(),
        TABLES.map((ip) => `table ${ip} ip-masq-agent`),
      );
      test.diagnostic(`${sent} packets`);
    });
});

function forBoth(text: (ip: (typeof TABLES)[number]) => string): string {
  return TABLES.map((ip) => `${text(ip)}\n`).join('');
}

async function nft({ network }: PacketLab, script: string): Promise<void> {
  await succeed(network.node.run('nft', ['-f', '-'], { input: script }));
}

async function list({ network }: PacketLab, command: string): Promise<string> {
  const { code, stdout, stderr } = await network.node.run('nft', ['-s', ...command.split(' ')]);
  assert.equal(code, 0, stderr);
  return stdout;
}

async function counters({ network }: PacketLab) {
  const read = async (ip: string, name: string) => {
    const { stdout } = await network.node.run('nft', ['list', 'counter', ip, 'marks', name]);
    return Number(/packets (\d+)/.exec(stdout)?.[1]);
  };
  return await Promise.all(
    TABLES.map(async (ip) => ({
      ip,
      marked: await read(ip, 'marked'),
      unmarked: await read(ip, 'unmarked'),
    })),
  );
}
