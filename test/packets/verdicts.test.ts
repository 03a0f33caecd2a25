import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Family, formatAddress, parseAddress } from '../../lib/cidr/address.ts';
import type { KernelVerdict, Observed } from '../../lib/dataplane/dataplane.ts';
import { verdictAt } from '../../lib/dataplane/kernel-verdicts.ts';
import type { PortOptions, PortRange } from '../../lib/dataplane/ports.ts';
import { type Decision, decide } from '../../lib/policy/decision.ts';
import { compilePolicy, decider, nodeAddressText, type Verdict } from '../../lib/policy/policy.ts';
import { FAMILIES } from '../kernel/support.ts';
import { GATEWAY, NODE, POD } from '../lab/network.ts';
import { RUNS } from '../lab/runs.ts';
import type { Seen } from '../lab/volley.ts';
import { addressesNear } from './addresses.ts';
import { type Random, seededRandom } from './random.ts';
import { type RandomConfig, randomConfig } from './random-config.ts';
import { createPacketLab, DATAPLANES, NO_LAB, type PacketLab } from './support.ts';

/** To see a failure again: PACKETS_SEED=7 RUNS=10 node --test … */
const SEED = Number(process.env['PACKETS_SEED'] ?? 1);
/** For each dataplane. */
const CONFIGS = 60 * RUNS;

const RANGES: readonly PortRange[] = [
  { first: 2000, last: 2999 },
  { first: 40_000, last: 40_000 },
  { first: 50_000, last: 59_999 },
];

/** Seconds are usual; a machine that is busy with other things may take longer. */
const PATIENCE_MS = 600_000;

/** Each changes the rules; the configs are shared out among them. */
const PORTS: readonly (readonly [name: string, PortOptions])[] = [
  ['random ports', { randomFully: true, toPorts: [] }],
  ['ports kept', { randomFully: false, toPorts: [] }],
  ['random ports of some protocols', { randomFully: ['tcp', 'sctp'], toPorts: [] }],
  ['ports from ranges', { randomFully: true, toPorts: RANGES }],
];

/** A packet that was sent, what the policy says of it, and what was seen of it. */
interface Shot {
  readonly explained: Decision;
  /** The address that the policy gives to it; undefined where the kernel chooses. */
  readonly as: string | undefined;
  readonly seen: Seen;
  /** What the dataplane reads out of the kernel's rules, where it was asked. */
  readonly kernel: Pick<KernelVerdict, 'verdict' | 'as'> | undefined;
}

/** The addresses that a node of the lab has. */
const OWN = [NODE, GATEWAY].flatMap(({ IPv4, IPv6 }) =>
  [IPv4, IPv6].flatMap((text) => parseAddress(text) ?? []),
);

/** Reading rules takes longer than sending packets. */
const READ_EVERY = 5;

describe('real packets arrive from where `explain` says', { concurrency: true, skip: NO_LAB }, () => {
  for (const kind of DATAPLANES) {
    describe(kind.name, { concurrency: 1 }, () => {
      for (const [index, [name, ports]] of PORTS.entries()) {
        it(name, { timeout: PATIENCE_MS }, async (test) => {
          await using lab = await createPacketLab(kind, ports);
          // Every dataplane meets the same configs.
          const random = seededRandom(SEED * PORTS.length + index);
          test.diagnostic(await shootAll(lab, random, Math.ceil(CONFIGS / PORTS.length)));
        });
      }
    });
  }
});

async function shootAll(lab: PacketLab, random: Random, configs: number): Promise<string> {
  const sent: Record<Verdict, number> = { not_masqueraded: 0, masqueraded: 0 };
  const kernel = new Map<Family, Observed>();
  for (let number = 1; number <= configs; number += 1) {
    const made = randomConfig(random);
    const shots = await shoot(lab, made, random, kernel);
    for (const { explained } of shots) sent[explained.verdict] += 1;
    const wrong = shots.filter((shot) => !isAsExplained(shot)).map(describeShot);
    assert.equal(wrong.length, 0, report(number, made, wrong));
  }
  const total = `${configs} configs, ${sent.not_masqueraded} packets left alone, ${sent.masqueraded} masqueraded`;
  // Usual are about 15 of each a config, most of them of IPv6; far fewer would prove little.
  const enough = configs * (FAMILIES.length > 1 ? 5 : 1);
  assert.ok(Math.min(sent.not_masqueraded, sent.masqueraded) > enough, `too few packets: ${total}`);
  return total;
}

/**
 * Brings the config into the kernel and sends packets to addresses near all its boundaries.
 *
 * @param kernel what was observed last: nobody else writes there
 */
async function shoot(
  { dataplane, network }: PacketLab,
  { config }: RandomConfig,
  random: Random,
  kernel: Map<Family, Observed>,
): Promise<readonly Shot[]> {
  const aims = [];
  for (const family of FAMILIES) {
    const policy = compilePolicy(config, family, OWN);
    const decides = decider(policy);
    const plan = (kernel.get(family) ?? (await dataplane.observe(family))).plan(policy);
    await plan?.apply();
    const observed = await dataplane.observe(family);
    assert.equal(observed.plan(policy), undefined);
    kernel.set(family, observed);
    const verdicts = observed.verdicts();
    const prefixes = policy.entries.map(({ prefix }) => prefix);
    for (const [index, address] of addressesNear(random, family, prefixes).entries()) {
      const pod = parseAddress(POD[family]);
      const kernel = index % READ_EVERY === 0 ? verdictAt(verdicts, address, pod) : undefined;
      const explained = decide(config, address, pod);
      const entry = explained.verdict === 'masqueraded' ? decides(address) : undefined;
      aims.push({ explained, as: entry?.as && nodeAddressText(entry.as), kernel });
    }
  }
  const seen = await network.sourcesSeen(aims.map(({ explained }) => formatAddress(explained.address)));
  return aims.flatMap((aim, index) => {
    const one = seen[index];
    return one === undefined ? [] : [{ ...aim, seen: one }];
  });
}

function isAsExplained({ explained, as, seen, kernel }: Shot): boolean {
  const { verdict, address } = explained;
  const source = as ?? (verdict === 'not_masqueraded' ? POD : NODE)[address.family];
  const isRead = kernel === undefined || (kernel.verdict === verdict && kernel.as === as);
  return seen.address === source && isRead;
}

function describeShot({ explained, as, seen, kernel }: Shot): string {
  const { address, verdict, decidedBy } = explained;
  const by = decidedBy === undefined ? 'no entry' : decidedBy.prefix.text;
  const rules = kernel && `, and the rules read as ${kernel.verdict} ${kernel.as ?? ''}`;
  return `${formatAddress(address)}: ${verdict} ${as ?? ''} (by ${by}), but it arrived from ${seen.address}${rules ?? ''}`;
}

function report(number: number, { configFiles }: RandomConfig, wrong: readonly string[]): string {
  return [
    `PACKETS_SEED=${SEED}, config ${number}: ${JSON.stringify(configFiles, undefined, 2)}`,
    ...wrong,
  ].join('\n');
}
