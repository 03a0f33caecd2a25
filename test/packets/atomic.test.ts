import assert from 'node:assert/strict';
import { after, before, describe, it, type TestContext } from 'node:test';
import type { MergedConfig } from '../../lib/config/config.ts';
import type { RuleOptions } from '../../lib/dataplane/options.ts';
import { decide } from '../../lib/policy/decision.ts';
import { compilePolicy } from '../../lib/policy/policy.ts';
import { createNode, eventually } from '../e2e/support.ts';
import { FAMILIES, IP } from '../kernel/support.ts';
import { startFlood } from '../lab/flood.ts';
import { createNetwork, type Network, NODE, POD } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { RUNS } from '../lab/runs.ts';
import { addressFrom } from '../unit/cidr/support.ts';
import { mergedOf } from '../unit/config/support.ts';
import {
  createPacketLab,
  DATAPLANES,
  type DataplaneKind,
  NFTABLES,
  NO_LAB,
  openDataplane,
  type PacketLab,
} from './support.ts';

/** All configs treat two of each family alike. */
const DESTINATIONS = {
  IPv4: ['10.20.0.1', '10.20.64.1', '10.30.1.1', '10.99.1.1', '203.0.113.9'],
  IPv6: ['fd00:20::1', 'fd00:20:64::1', 'fd00:30:1::1', 'fd00:99:1::1', '2606:4700::1'],
} as const;
/** Addresses of the node that packets leave with only if the config says so. */
const SECOND = { IPv4: '192.0.2.77', IPv6: '2001:db8::77' } as const;
const OWN = FAMILIES.map((family) => addressFrom(SECOND[family]));

const INSIDE = 'nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]';
const EVERYTHING = 'nonMasqueradeCIDRs: [0.0.0.0/0, "::/0"]';
const NOTHING = 'nonMasqueradeCIDRs: []';
const EXCEPTION = 'masqueradeCIDRs: [10.20.0.0/16, fd00:20::/32]';
const NEVER_FROM_PODS = 'nonMasqueradeFromCIDRs: [10.244.1.0/24, fd00:244:1::/64]';
/** With gaps, so that none is joined with another. */
const MANY = Array.from({ length: 900 }, (_, index) => [index >> 2, (index % 4) * 64] as const);

/** What a change is between, to and fro. */
interface Case {
  readonly what: string;
  /** Lines of config files. */
  readonly configs: readonly (readonly string[])[];
  readonly options?: readonly Partial<RuleOptions>[];
  /** Commands of another program before each sync, in the dataplanes that have this case; `$1` is ip or ip6, `$2` the mode of iptables. */
  readonly damage?: { readonly nftables: string; readonly iptables?: string };
  /** Whether each second change removes the rules. */
  readonly removes?: true;
  /** What else holds meanwhile. */
  readonly damaged?: readonly string[];
  /** What else may hold for a moment that a test need not meet. */
  readonly perhaps?: readonly string[];
}

const CASES: readonly Case[] = [
  { what: 'an exception', configs: [[INSIDE], [INSIDE, EXCEPTION]] },
  {
    what: '900 exceptions',
    configs: [
      [INSIDE],
      [
        'cidrLimit: 2000',
        INSIDE,
        `masqueradeCIDRs: [${MANY.map(([x, y]) => `10.${x}.${y}.0/24, fd00:${x}:${y}::/48`)}]`,
      ],
    ],
  },
  {
    what: 'an exception and its address',
    configs: [
      [INSIDE],
      [
        INSIDE,
        EXCEPTION,
        `masqueradeAddresses: [{destination: 10.20.0.0/16, address: ${SECOND.IPv4}/32}, {destination: "fd00:20::/32", address: "${SECOND.IPv6}/128"}]`,
      ],
    ],
  },
  { what: 'sources', configs: [[INSIDE], [INSIDE, NEVER_FROM_PODS]] },
  // Neither masquerades what is outside: the one because of its destination, the other because of its source.
  {
    what: 'two lists',
    configs: [
      [EVERYTHING, EXCEPTION],
      [INSIDE, NEVER_FROM_PODS],
    ],
  },
  {
    what: 'flags',
    configs: [[INSIDE, EXCEPTION]],
    options: [{}, { randomFully: false }, { toPorts: [{ first: 2000, last: 29_999 }] }],
  },
  {
    what: 'a wrong frame and its repair',
    configs: [[INSIDE, EXCEPTION]],
    damage: {
      nftables: `{ echo delete chain $1 ip-masq-agent postrouting
        nft list table $1 ip-masq-agent | sed 's/priority [^;]*/priority 90/'; } | nft -f -`,
      iptables: '$1tables-$2 -t nat --wait -I POSTROUTING -j IP-MASQ-AGENT',
    },
  },
  {
    what: 'a foreign flush and its repair',
    configs: [[INSIDE, EXCEPTION]],
    damage: {
      nftables: 'nft flush chain $1 ip-masq-agent postrouting',
      iptables: '$1tables-$2 -t nat --wait -F IP-MASQ-AGENT',
    },
    damaged: [EVERYTHING],
  },
  // The table is deleted and made again in one transaction: a packet may meet the rules before the elements of their set.
  {
    what: 'a foreign map and its repair',
    configs: [[INSIDE, EXCEPTION]],
    damage: {
      nftables: "nft add map $1 ip-masq-agent theirs '{ type mark : verdict; }'",
    },
    perhaps: [NOTHING],
  },
  { what: 'a removal', configs: [[INSIDE, EXCEPTION]], removes: true, damaged: [EVERYTHING] },
];

/** Less would show nothing, also on a virtual machine. */
const LEAST_MS = 1_000 * Math.max(1, RUNS);
const LEAST_CHANGES = 6;
const LEAST_PACKETS = 1_000;

describe('while rules change each packet has a verdict of a config, in both families', {
  concurrency: true,
  skip: NO_LAB,
  timeout: 600_000 * Math.max(1, RUNS),
}, () => {
  for (const kind of DATAPLANES)
    describe(kind.name, { concurrency: 1 }, () => {
      let lab: PacketLab;
      before(async () => {
        lab = await createPacketLab(kind);
        await addSecond(lab.network);
      });
      after(() => lab[Symbol.asyncDispose]());
      const has = ({ damage }: Case) => damage === undefined || kind === NFTABLES || 'iptables' in damage;
      for (const one of CASES.filter(has))
        it(`${one.what}: ${kind.name}`, async (test) => {
          const configs = one.configs.map(linesOf);
          const damaged = one.damaged === undefined ? [] : [linesOf(one.damaged)];
          const perhaps = one.perhaps === undefined ? [] : [linesOf(one.perhaps)];
          const change = await changing(kind, lab, one);
          await assertVerdicts(lab.network, [...configs, ...damaged], change, test, perhaps);
        });
    });

  it('dataplanes', { skip: DATAPLANES.length === 1 }, async (test) => {
    await using node = await createNode();
    await using network = await createNetwork(node.box);
    await node.volume({ 'ip-masq-x': textOf([INSIDE, EXCEPTION]) });
    const change = async (number: number) => {
      const { flags } = DATAPLANES[number % DATAPLANES.length] ?? assert.fail();
      const { code, stderr } = await node.agent('--once', '--enable-ipv6', ...flags);
      assert.equal(code, 0, stderr);
    };
    await assertVerdicts(network, [linesOf([INSIDE, EXCEPTION])], change, test);
  });

  it('dataplanes, live, as kube-proxy comes and goes', { skip: DATAPLANES.length === 1 }, async (test) => {
    await using node = await createNode();
    await using network = await createNetwork(node.box);
    await node.volume({ 'ip-masq-x': textOf([INSIDE, EXCEPTION]) });
    const agent = node.start('--enable-ipv6', '--resync-interval=1h', '--metrics-bind-address=');
    const change = async (number: number) => {
      const comes = number % 2 === 1;
      const round = (number + (number % 2)) / 2;
      for (const family of FAMILIES)
        if (number > 0) await node.nft(`${comes ? 'add' : 'delete'} table ${IP[family]} kube-proxy`);
      if (number === 0) {
        await agent.logged(/IPv6: rules added/);
        return;
      }
      // Its rules in the other dataplane go last.
      const gone = new RegExp(`no longer in use: IPv6, ${comes ? 'iptables' : 'nftables'}`, 'g');
      await eventually(
        async () => (agent.log().match(gone)?.length ?? 0) >= round,
        () => `switch ${number}; the log is ${agent.log()}`,
      );
    };
    await assertVerdicts(network, [linesOf([INSIDE, EXCEPTION])], change, test);
    await agent.stop();
  });
});

/** Brings each config after the other into the kernel, and each way to write it. */
async function changing(
  kind: DataplaneKind,
  { host, network }: PacketLab,
  { configs, options = [{}], damage, removes }: Case,
): Promise<(number: number) => Promise<void>> {
  const all = configs.map(linesOf);
  const dataplanes = await Promise.all(options.map((one) => openDataplane(kind, host, one)));
  const [backend = '', mode = ''] = kind.name.split('-');
  const commands = damage?.[backend as keyof typeof damage];
  return async (number) => {
    const config = all[number % all.length] ?? assert.fail();
    const dataplane = dataplanes[number % dataplanes.length] ?? assert.fail();
    for (const family of FAMILIES) {
      if (commands !== undefined && number > 0)
        await succeed(network.node.run('sh', ['-ec', commands, 'sh', IP[family], mode]));
      const observed = await dataplane.observe(family);
      const plan =
        removes && number % 2 === 1
          ? observed.planRemoval()
          : observed.plan(compilePolicy(config, family, OWN));
      await plan?.apply();
      assert.ok(number === 0 || plan !== undefined, 'nothing has changed');
    }
  };
}

/** Changes rules again and again while packets flow. */
async function assertVerdicts(
  network: Network,
  configs: readonly MergedConfig[],
  change: (number: number) => Promise<void>,
  test: TestContext,
  perhaps: readonly MergedConfig[] = [],
): Promise<void> {
  await change(0);
  await using flood = await startFlood(network, Object.values(DESTINATIONS).flat());
  const end = performance.now() + LEAST_MS;
  let changes = 0;
  while (changes < LEAST_CHANGES || performance.now() < end) {
    changes += 1;
    await change(changes);
  }
  const arrivals = await flood.arrivals();
  const allowed = new Set(configs.flatMap(pathsOf));
  const sum = (paths: readonly string[]) => paths.reduce((all, path) => all + (arrivals.get(path) ?? 0), 0);
  const possible = new Set([...configs, ...perhaps].flatMap(pathsOf));
  const neither = [...arrivals.keys()].filter((path) => !possible.has(path));
  const early = sum([...arrivals.keys()].filter((path) => possible.has(path) && !allowed.has(path)));
  const told = `${sum(neither)} of ${sum([...arrivals.keys()])} packets in ${changes} changes have a verdict of neither, ${early} one that is possible`;
  test.diagnostic(`${test.name}: ${told}`);
  assert.deepEqual(
    neither.map((path) => `${path}: ${arrivals.get(path)}`),
    [],
    told,
  );
  for (const path of allowed) assert.ok((arrivals.get(path) ?? 0) > 0, `no packet of ${path}`);
  assert.ok(sum([...allowed]) > LEAST_PACKETS, told);
}

/** The destinations with the source that packets to them have behind the rules. */
function pathsOf(config: MergedConfig): readonly string[] {
  return FAMILIES.flatMap((family) =>
    DESTINATIONS[family].map((destination) => {
      const { verdict, as } = decide(config, addressFrom(destination), addressFrom(POD[family]), OWN);
      const source = as === undefined ? NODE : SECOND;
      return `${destination} ${(verdict === 'masqueraded' ? source : POD)[family]}`;
    }),
  );
}

async function addSecond({ node }: Network): Promise<void> {
  for (const family of FAMILIES)
    await succeed(node.run('ip', ['address', 'add', SECOND[family], 'dev', 'uplink0', ...DEPRECATED]));
}

/** By itself, the kernel never chooses it. */
const DEPRECATED = ['preferred_lft', '0'];

function linesOf(lines: readonly string[]): MergedConfig {
  return mergedOf({ x: textOf(lines) }, { cidrLimitMax: 2000 });
}

function textOf(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}
