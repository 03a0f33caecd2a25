import assert from 'node:assert/strict';
import { it } from 'node:test';
import { holdersOf, type ReadFiltered } from '../../../lib/flows/port-holders.ts';

it('the connections behind a port are kept up to a limit, and counted beyond it', async () => {
  const node = { family: 'IPv4', value: 1n } as const;
  const end = { source: 2n, destination: 1n, sourcePort: 53, destinationPort: 40_001 };
  const read: ReadFiltered = async (_, take) => {
    for (let flow = 0; flow < 10_003; flow += 1)
      take({ family: 'IPv4', protocol: 17, original: end, reply: end } as Parameters<typeof take>[0]);
  };
  const { holders, others } = await holdersOf(read, { address: node, port: 40_001 }, 'udp', undefined);
  assert.deepEqual([holders.length, others], [10_000, 3]);
});
