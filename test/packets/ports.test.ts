import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { PortOptions, PortRange } from '../../lib/dataplane/ports.ts';
import { FAMILIES, type Family } from '../kernel/support.ts';
import { NODE, POD } from '../lab/network.ts';
import type { Seen } from '../lab/volley.ts';
import {
  configOf,
  createPacketLab,
  DATAPLANES,
  NO_LAB,
  openDataplane,
  type PacketLab,
  sync,
} from './support.ts';

/** Half of the destinations below are masqueraded because of an exception, half because nothing holds them. */
const CONFIG = configOf(`
nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8]
masqueradeCIDRs: [10.20.0.0/16, fd00:20::/32]
`);

const PROTOCOLS = ['udp', 'tcp'] as const;
const SOURCE_PORT = 31_000;

describe('--to-ports', { concurrency: true, skip: NO_LAB }, () => {
  /** Few ports, so that each is used often; eight in all. */
  const RANGES: readonly PortRange[] = [
    { first: 2001, last: 2002 },
    { first: 30_000, last: 30_000 },
    { first: 40_000, last: 40_004 },
  ];
  const PORTS = RANGES.flatMap(({ first, last }) =>
    Array.from({ length: last - first + 1 }, (_, index) => ({ first: first + index, last: first + index })),
  );
  const CONNECTIONS = 600;

  for (const kind of DATAPLANES) {
    // Without --random-fully the kernel may take the ports of a range in turn, but the range is still drawn by lot.
    for (const [flag, drawn] of [
      ['--random-fully', PORTS],
      ['--random-fully=false', RANGES],
    ] as const) {
      it(`uses all its ports evenly, and no others: ${kind.name}, ${flag}`, async () => {
        await using lab = await createPacketLab(kind, { toPorts: RANGES, randomFully: drawn === PORTS });
        await sync(lab.dataplane, CONFIG);
        for (const family of FAMILIES) {
          for (const protocol of PROTOCOLS) {
            const seen = await lab.network.sourcesSeen(destinations(family, CONNECTIONS), { protocol });
            assert.deepEqual([...new Set(seen.map(({ address }) => address))], [NODE[family]]);
            assertDrawn(seen, drawn, `${family}, ${protocol}`);
          }
        }
      });
    }
  }

  function assertDrawn(seen: readonly Seen[], drawn: readonly PortRange[], what: string): void {
    const counts = drawn.map(
      ({ first, last }) => seen.filter(({ port }) => port >= first && port <= last).length,
    );
    const told = `${what}: ${drawn.map(({ first, last }, index) => `${first}-${last}: ${counts[index]}`).join(', ')}`;
    assert.equal(
      counts.reduce((sum, count) => sum + count),
      CONNECTIONS,
      `other ports too; ${told}`,
    );
    for (const [index, { first, last }] of drawn.entries()) {
      const { least, most } = likely(CONNECTIONS, (last - first + 1) / PORTS.length);
      const count = counts[index] ?? 0;
      assert.ok(count >= least && count <= most, `from ${least} to ${most} expected; ${told}`);
    }
  }
});

describe('the source port', { concurrency: true, skip: NO_LAB }, () => {
  const CONNECTIONS = 50;
  /** One kept by chance has a probability of 1/64512 (ports from 1024); more than this many, less than 10^-10. */
  const KEPT_BY_CHANCE = 2;

  for (const kind of DATAPLANES) {
    describe(kind.name, { concurrency: 1 }, () => {
      let lab: PacketLab;
      before(async () => {
        lab = await createPacketLab(kind);
      });
      after(() => lab[Symbol.asyncDispose]());

      /** The kernel knows no connection with a port that was not used before. */
      let port = SOURCE_PORT;
      const unused = () => {
        port += 1;
        return port;
      };
      const choose = async (randomFully: PortOptions['randomFully']) =>
        await sync(await openDataplane(kind, lab.host, { randomFully }), CONFIG);
      /** How many of the connections of a pod, all from one port, leave the node from that port. */
      const kept = async (family: Family, protocol: 'udp' | 'tcp', port = unused()) => {
        const source = { address: POD[family], port };
        const seen = await lab.network.sourcesSeen(destinations(family, CONNECTIONS), { protocol, source });
        assert.deepEqual([...new Set(seen.map(({ address }) => address))], [NODE[family]]);
        return countPort(seen, port);
      };

      const assertFewKept = async (family: Family, protocol: 'udp' | 'tcp') => {
        const count = await kept(family, protocol);
        assert.ok(count <= KEPT_BY_CHANCE, `${family}, ${protocol}: ${count} are kept`);
      };

      it('is kept with --random-fully=false', async () => {
        await choose(false);
        for (const family of FAMILIES)
          for (const protocol of PROTOCOLS)
            assert.equal(await kept(family, protocol), CONNECTIONS, `${family}, ${protocol}`);
      });

      it('is another with --random-fully', async () => {
        await choose(true);
        for (const family of FAMILIES)
          for (const protocol of PROTOCOLS) await assertFewKept(family, protocol);
      });

      it('is another only for the protocols that --random-fully lists', async () => {
        await choose(['tcp', 'sctp']);
        for (const family of FAMILIES) {
          assert.equal(await kept(family, 'udp'), CONNECTIONS, family);
          await assertFewKept(family, 'tcp');
        }
      });

      it('is another with --random-fully=false where the node uses it itself', async () => {
        await choose(false);
        await using fromNode = await lab.network.witness.openSender(lab.network.node);
        for (const family of FAMILIES) {
          const port = unused();
          const source = { address: NODE[family], port };
          const own = await fromNode.sourcesSeen(destinations(family, CONNECTIONS), { source });
          assert.equal(countPort(own, port), CONNECTIONS, family);
          assert.equal(await kept(family, 'udp', port), 0, family);
        }
      });
    });
  }
});

function countPort(seen: readonly Seen[], port: number): number {
  return seen.filter((one) => one.port === port).length;
}

/** A destination of its own for each connection, so that none takes a port away from another. */
function destinations(family: 'IPv4' | 'IPv6', count: number): readonly string[] {
  const [exception, elsewhere] = family === 'IPv4' ? ['10.20', '203.0'] : ['fd00:20:', '2606:4700:'];
  return Array.from({ length: count }, (_, index) => {
    const network = index % 2 === 0 ? exception : elsewhere;
    return family === 'IPv4'
      ? `${network}.${index >> 8}.${index & 255}`
      : `${network}:${(index + 1).toString(16)}`;
  });
}

/**
 * How often something of this probability happens in so many tries. It is less, or more, with a probability of less
 * than 10^-12 each: a whole run asks that about 300 times, and fails by chance
 * with a probability of less than 10^-9.
 */
function likely(tries: number, probability: number): { readonly least: number; readonly most: number } {
  const tail = 1e-12;
  let logarithm = tries * Math.log(1 - probability);
  let sum = 0;
  let least = 0;
  for (let count = 0; count <= tries; count += 1) {
    sum += Math.exp(logarithm);
    if (sum < tail) least = count + 1;
    // From here on rounding hides what is left of the sum, so the upper tail is taken from its largest term.
    if (count > tries * probability && Math.exp(logarithm) * tries < tail) return { least, most: count };
    logarithm += Math.log((tries - count) / (count + 1)) + Math.log(probability / (1 - probability));
  }
  return { least, most: tries };
}
