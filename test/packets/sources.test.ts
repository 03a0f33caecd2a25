import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { MergedConfig } from '../../lib/config/config.ts';
import { verdictAt } from '../../lib/dataplane/kernel-verdicts.ts';
import { decide } from '../../lib/policy/decision.ts';
import { compilePolicy } from '../../lib/policy/policy.ts';
import { FAMILIES, type Family } from '../kernel/support.ts';
import { NODE, POD } from '../lab/network.ts';
import { owning } from '../lab/owning.ts';
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

/** Whose packets are masqueraded, and whose never. */
const CASES: readonly (readonly [from: readonly Ranges[], never: readonly Ranges[]])[] = [
  [[], []],
  [[], ['POD']],
  [[], ['POD_ALONE', 'ELSEWHERE']],
  [[], ['ELSEWHERE']],
  [[], ['PODS', 'POD']],
  [[], ['ALL']],
  [['PODS'], ['POD']],
  [
    ['PODS', 'POD_ALONE'],
    ['POD', 'ELSEWHERE'],
  ],
  [['OTHER'], ['PODS']],
  [['PODS'], ['POD', 'OTHER']],
  [['ALL'], ['POD']],
  [['OTHER'], []],
];

/** Packets, and what the dataplane reads out of the kernel, are as the config says. */
async function assertHolds({ dataplane, volley }: SourceLab, config: MergedConfig, what: string) {
  for (const { family, source, destination, seen } of await volley())
    assert.equal(seen, sourceOf(config, family, source, destination), `${what}: ${source}`);
  for (const family of FAMILIES) {
    const observed = await dataplane.observe(family);
    assert.equal(observed.plan(compilePolicy(config, family)), undefined, what);
    const verdicts = observed.verdicts();
    for (const destination of DESTINATIONS[family].slice(0, 3).map(addressFrom))
      for (const source of [POD, OTHER].map((one) => addressFrom(one[family]))) {
        const { verdict } = verdictAt(verdicts, destination, source);
        assert.equal(verdict, decide(config, destination, source).verdict, what);
      }
  }
}

/** The source that packets have outside. */
function sourceOf(config: MergedConfig, family: Family, source: string, destination: string): string {
  const { verdict } = decide(config, addressFrom(destination), addressFrom(source));
  return verdict === 'masqueraded' ? NODE[family] : source;
}

const PATIENCE_MS = 240_000 * RUNS;
const CHANGES = 18 * RUNS;

describe('ranges of sources come, change and go', { skip: NO_LAB, timeout: PATIENCE_MS }, () => {
  for (const kind of DATAPLANES)
    it(`and every packet has the verdict before or after meanwhile, and that after them then: ${kind.name}`, async (test) => {
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
        const what = `change ${change}, to ${from} but ${never}`;
        assert.deepEqual(wrong, [], what);
        await assertHolds(lab, after, what);
        before = after;
      }
      assert.ok(sent > 2_000);
      test.diagnostic(`${CHANGES} changes, ${sent} connections`);
    });
});

interface Shot {
  readonly family: Family;
  readonly source: string;
  readonly destination: string;
  /** The source that it had outside. */
  readonly seen: string;
}

type SourceLab = Awaited<ReturnType<typeof createSourceLab>>;

const createSourceLab = (kind: DataplaneKind) =>
  owning(async (stack) => {
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
    /** Sends a packet from each pod to each destination: a new connection each. */
    const volley = async (): Promise<readonly Shot[]> => {
      port += 1;
      const shots: Shot[] = [];
      for (const family of FAMILIES)
        for (const { [family]: source } of [POD, OTHER]) {
          const seen = await network.sourcesSeen(DESTINATIONS[family], { source: { address: source, port } });
          for (const [index, destination] of DESTINATIONS[family].entries())
            shots.push({ family, source, destination, seen: seen[index]?.address ?? '' });
        }
      return shots;
    };
    return {
      dataplane,
      volley,
      /** The shots until it has settled. */
      async *during(work: Promise<void>): AsyncGenerator<Shot, void> {
        const changing = { isDone: false };
        const done = work.finally(() => {
          changing.isDone = true;
        });
        do yield* await volley();
        while (!changing.isDone);
        await done;
      },
    };
  });
