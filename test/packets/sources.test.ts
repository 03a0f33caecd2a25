import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { MergedConfig } from '../../lib/config/config.ts';
import type { Dataplane } from '../../lib/dataplane/dataplane.ts';
import { verdictAt } from '../../lib/dataplane/kernel-verdicts.ts';
import { decide } from '../../lib/policy/decision.ts';
import { compilePolicy } from '../../lib/policy/policy.ts';
import { FAMILIES, type Family } from '../kernel/support.ts';
import { NODE, POD } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { RUNS } from '../lab/runs.ts';
import { addressFrom } from '../unit/cidr/support.ts';
import { configOf, createPacketLab, DATAPLANES, type DataplaneKind, NO_LAB, sync } from './support.ts';

/** A pod of another pool: the last half of the network of pods. */
const OTHER = { IPv4: '10.244.1.130', IPv6: 'fd00:244:1:0:8000::2' } as const;
const RANGES = {
  POD: ['10.244.1.0/25', 'fd00:244:1::/65'],
  OTHER: ['10.244.1.128/25', 'fd00:244:1:0:8000::/65'],
  POD_ALONE: ['10.244.1.2/32', 'fd00:244:1::2/128'],
  PODS: ['10.244.0.0/16', 'fd00:244::/32'],
  ELSEWHERE: ['198.51.100.0/24', '2001:db8:9::/48'],
  ALL: ['0.0.0.0/0', '::/0'],
} as const;

type Ranges = keyof typeof RANGES;

const MANY = Array.from({ length: 20 }, (_, index) => index + 1);
const DESTINATIONS: Readonly<Record<Family, readonly string[]>> = {
  IPv4: MANY.flatMap((n) => [`203.0.113.${n}`, `10.1.1.${n}`, `10.2.1.${n}`]),
  IPv6: MANY.flatMap((n) => [`2606:4700::${n}`, `fd00:1::${n}`, `fd00:2::${n}`]),
};

/** All that asks for destinations: what is inside, exceptions, and an address for what is masqueraded. */
const OF_DESTINATIONS = [
  'nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]',
  'masqueradeCIDRs: [10.2.0.0/16, fd00:2::/32]',
  'masqueradeAddresses: [{destination: 0.0.0.0/0, address: 192.0.2.0/24}]',
  'masqLinkLocal: true',
];

/** Only what is an exception above. */
const OF_OTHER_DESTINATIONS = ['nonMasqueradeCIDRs: [10.2.0.0/16, fd00:2::/32]'];

function configWith(
  from: readonly Ranges[],
  never: readonly Ranges[],
  destinations = OF_DESTINATIONS,
): MergedConfig {
  const list = (names: readonly Ranges[]) => JSON.stringify(names.flatMap((name) => RANGES[name]));
  return configOf(
    [
      ...destinations,
      `masqueradeFromCIDRs: ${list(from)}`,
      `nonMasqueradeFromCIDRs: ${list(never)}`,
      '',
    ].join('\n'),
  );
}

/** Whose packets are masqueraded, if their destination says so. */
const CASES: readonly (readonly [
  from: readonly Ranges[],
  never: readonly Ranges[],
  pods: readonly ('POD' | 'OTHER')[],
])[] = [
  [[], [], ['POD', 'OTHER']],
  [[], ['POD'], ['OTHER']],
  [[], ['POD_ALONE', 'ELSEWHERE'], ['OTHER']],
  [[], ['ELSEWHERE'], ['POD', 'OTHER']],
  [[], ['PODS', 'POD'], []],
  [[], ['ALL'], []],
  [['PODS'], ['POD'], ['OTHER']],
  [
    ['PODS', 'POD_ALONE'],
    ['POD', 'ELSEWHERE'],
    ['POD', 'OTHER'],
  ],
  [['OTHER'], ['PODS'], ['OTHER']],
  [['PODS'], ['POD', 'OTHER'], []],
  [['ALL'], ['POD'], ['OTHER']],
  [['OTHER'], [], ['OTHER']],
];

describe('packets of pods that config files name', { concurrency: true, skip: NO_LAB }, () => {
  for (const kind of DATAPLANES)
    it(`are masqueraded or never, whatever their destination, ${kind.name}`, async () => {
      await using lab = await createSourceLab(kind);
      for (const [from, never, pods] of CASES) {
        const config = configWith(from, never);
        const what = `${from} but ${never}`;
        await sync(lab.dataplane, config);
        for (const { family, pod, source, destination, seen } of await lab.volley()) {
          const isInside = /^(?:10\.1|fd00:1)[.:]/.test(destination);
          const expected = !isInside && pods.includes(pod) ? NODE[family] : source;
          assert.equal(seen, expected, `${what}: ${source} to ${destination}`);
          assert.equal(sourceOf(config, family, source, destination), expected, what);
        }
        for (const family of FAMILIES) await assertRead(lab.dataplane, config, family, what);
      }
    });
});

/** What the dataplane reads out of the kernel is what the config says. */
async function assertRead(dataplane: Dataplane, config: MergedConfig, family: Family, what: string) {
  const observed = await dataplane.observe(family);
  assert.equal(observed.plan(compilePolicy(config, family)), undefined, what);
  const verdicts = observed.verdicts();
  for (const destination of DESTINATIONS[family].slice(0, 3).map(addressFrom))
    for (const source of [POD, OTHER].map((one) => addressFrom(one[family]))) {
      const { verdict } = verdictAt(verdicts, destination, source);
      assert.equal(verdict, decide(config, destination, source).verdict, what);
    }
}

/** The source that packets have outside. */
function sourceOf(config: MergedConfig, family: Family, source: string, destination: string): string {
  const { verdict } = decide(config, addressFrom(destination), addressFrom(source));
  return verdict === 'masqueraded' ? NODE[family] : source;
}

const PATIENCE_MS = 240_000 * RUNS;
const CHANGES = 30 * RUNS;

describe('sources come, change and go', { skip: NO_LAB, timeout: PATIENCE_MS }, () => {
  for (const kind of DATAPLANES)
    it(`and every packet meanwhile has the verdict before or after, ${kind.name}`, async (test) => {
      await using lab = await createSourceLab(kind);
      let [before, sent, index] = [configWith([], []), 0, 0];
      await sync(lab.dataplane, before);
      for (let change = 0; change < CHANGES; change += 1) {
        // Each case follows each other one, sooner or later.
        index = (index + 1 + Math.floor(change / CASES.length)) % CASES.length;
        const [from, never] = CASES[index] ?? assert.fail();
        // Now and then the destinations change too.
        const destinations = Math.floor(change / 3) % 2 === 0 ? OF_DESTINATIONS : OF_OTHER_DESTINATIONS;
        const after = configWith(from, never, destinations);
        const wrong: string[] = [];
        for await (const { family, source, destination, seen } of lab.during(sync(lab.dataplane, after))) {
          const expected = [before, after].map((one) => sourceOf(one, family, source, destination));
          if (!expected.includes(seen)) wrong.push(`${source} to ${destination} as ${seen}`);
          sent += 1;
        }
        assert.deepEqual(wrong, [], `change ${change}, to ${from} but ${never}`);
        before = after;
      }
      assert.ok(sent > 2_000);
      test.diagnostic(`${CHANGES} changes, ${sent} connections`);
    });
});

interface Shot {
  readonly family: Family;
  readonly pod: 'POD' | 'OTHER';
  readonly source: string;
  readonly destination: string;
  /** The source that it had outside. */
  readonly seen: string;
}

async function createSourceLab(kind: DataplaneKind) {
  await using stack = new AsyncDisposableStack();
  const { network, dataplane } = stack.use(await createPacketLab(kind));
  for (const family of FAMILIES)
    await succeed(
      network.pod.run('ip', [
        'address',
        'add',
        `${OTHER[family]}/${family === 'IPv4' ? 24 : 64}`,
        'dev',
        'eth0',
      ]),
    );
  let port = 40_000;
  const owned = stack.move();
  return {
    dataplane,
    /** Sends a packet from each pod to each destination: a new connection each. */
    async volley(): Promise<readonly Shot[]> {
      const shots: Shot[] = [];
      port += 1;
      for (const family of FAMILIES)
        for (const [pod, { [family]: address }] of [
          ['POD', POD],
          ['OTHER', OTHER],
        ] as const) {
          const seen = await network.sourcesSeen(DESTINATIONS[family], { source: { address, port } });
          DESTINATIONS[family].forEach((destination, index) => {
            shots.push({ family, pod, source: address, destination, seen: seen[index]?.address ?? '' });
          });
        }
      return shots;
    },
    /** The shots until it has settled. */
    async *during(work: Promise<void>): AsyncGenerator<Shot, void> {
      const changing = { isDone: false };
      const done = work.finally(() => {
        changing.isDone = true;
      });
      do yield* await this.volley();
      while (!changing.isDone);
      await done;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
