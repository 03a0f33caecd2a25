import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatAddress, parseAddress } from '../../../lib/cidr/address.ts';
import { isCounted } from '../../../lib/flows/against.ts';
import { flowsTo } from '../../../lib/flows/destinations.ts';
import type { Flow } from '../../../lib/netlink/conntrack.ts';
import { flowOf, sourceOf } from './support.ts';

const SERVICE = parseAddress('10.96.0.10');

const toBackend = (backend: string, from = '10.244.0.1:1') =>
  flowOf({ from, to: '10.96.0.10:53', via: `${backend}:53` });

async function destinations(flows: Parameters<typeof sourceOf>[0][number], from?: string) {
  assert.ok(SERVICE);
  const [found] =
    (await flowsTo(sourceOf([flows]), [SERVICE], from ? parseAddress(from) : undefined, undefined)) ?? [];
  return found?.destinations.map(formatAddress);
}

describe('destinations of connections', () => {
  it('are the same, in whatever order the kernel tells the flows', async () => {
    const flows = ['10.3.4.10', '10.3.4.9', '10.20.1.1', '10.3.4.9'].map((backend) => toBackend(backend));
    const sorted = ['10.3.4.9', '10.3.4.10', '10.20.1.1'];
    assert.deepEqual(await destinations(flows), sorted);
    assert.deepEqual(await destinations(flows.toReversed()), sorted);
  });

  it('are those of connections from an address, if one is asked for', async () => {
    const flows = [toBackend('10.3.4.5'), toBackend('10.3.4.6', '10.244.0.2:1')];
    assert.deepEqual(await destinations(flows, '10.244.0.2'), ['10.3.4.6']);
  });

  it('are told with some of the connections, and the address that each left with', async () => {
    assert.ok(SERVICE);
    const flows = [
      flowOf({ from: '10.244.0.1:1', to: '10.96.0.10:53', via: '10.3.4.9:53', as: '192.0.2.1:7' }),
      toBackend('10.3.4.9', '10.244.0.1:2'),
    ];
    const judge = ({ original }: Flow) => (original.sourcePort === 1 ? 'masqueraded' : undefined);
    const [found] = (await flowsTo(sourceOf([flows]), [SERVICE], undefined, judge)) ?? [];
    assert.deepEqual(
      found?.flows.map(({ text, as, isAgainst }) => [text, as && formatAddress(as), isAgainst]),
      [
        ['udp 10.244.0.1:1 to 10.96.0.10:53', '192.0.2.1', true],
        ['udp 10.244.0.1:2 to 10.96.0.10:53', undefined, false],
      ],
    );
    assert.equal(await flowsTo(sourceOf([flows], 1e6), [SERVICE], undefined, judge), undefined);
  });

  it('are told with how a connection left that has ended', async () => {
    assert.ok(SERVICE);
    const inTimeWait = flowOf({ from: '10.244.0.1:1', to: '10.96.0.10:53' }, { protocol: 6, tcpState: 7 });
    const ends = { isPod: () => true, isOwn: () => false };
    const judge = (flow: Flow) => (isCounted(flow, ends) ? 'not_masqueraded' : undefined);
    const [found] = (await flowsTo(sourceOf([[inTimeWait]]), [SERVICE], undefined, judge)) ?? [];
    assert.equal(found?.flows[0]?.isAgainst, true);
  });
});
