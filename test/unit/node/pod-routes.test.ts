import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ADDRESS_BITS, formatAddress, parseAddress } from '../../../lib/cidr/address.ts';
import type { Link } from '../../../lib/netlink/links.ts';
import type { UnicastRoute } from '../../../lib/netlink/routes.ts';
import { podLinks, routesToPods } from '../../../lib/node/pod-routes.ts';
import { OTHER_NETWORKS, POD_NETWORKS, type PodNetwork } from '../../lab/pod-networks.ts';

/** What the node would find, without a kernel. */
function found({ links: lines, addresses = [], routes }: PodNetwork): readonly string[] {
  const names = ['lo', ...lines.map((line) => line.split(' ')[0])];
  const links = lines.map((line, index): Link => {
    const [name = '', kind = '', master] = line.split(' ');
    const isPair = kind === 'veth';
    return {
      index: index + 1,
      name,
      kind: name === 'eth0' && !isPair ? undefined : kind,
      master: master === undefined ? undefined : names.indexOf(master),
      peerIsInOtherNamespace: isPair,
    };
  });
  const own = addresses.map((line) => line.split('/')[0]);
  const unicast = routes.filter((line) => !line.startsWith('blackhole'));
  return routesToPods(
    podLinks(links),
    unicast.map((line) => routeOf(line, names)),
    (address) => own.includes(formatAddress(address)),
  ).map(({ text }) => text);
}

function routeOf(line: string, names: readonly (string | undefined)[]): UnicastRoute {
  const [destination = '', ...words] = line.split(' ');
  const after = (word: string) => (words.includes(word) ? words[words.indexOf(word) + 1] : undefined);
  const [text = '', length] = destination === 'default' ? ['0.0.0.0', '0'] : destination.split('/');
  const address = parseAddress(text);
  assert.ok(address, line);
  return {
    family: address.family,
    address: address.value,
    length: Number(length ?? ADDRESS_BITS[address.family]),
    isOfLink: after('proto') === 'kernel',
    table: Number(after('table') ?? 254),
    gateway: parseAddress(after('via') ?? '')?.value,
    source: undefined,
    links: [names.indexOf(after('dev'))],
  };
}

describe('routes to pods', () => {
  for (const network of POD_NETWORKS)
    it(`are told of ${network.name}`, () => assert.deepEqual(found(network), network.pods));

  for (const network of OTHER_NETWORKS)
    it(`are none of ${network.name}`, () => assert.deepEqual(found(network), []));

  it('are not those of a pair of which both ends are on the node', () => {
    const link = {
      index: 1,
      name: 'bpfin.cali',
      kind: 'veth',
      master: undefined,
      peerIsInOtherNamespace: false,
    };
    assert.equal(podLinks([link]).size, 0);
    assert.equal(podLinks([{ ...link, peerIsInOtherNamespace: true }]).size, 1);
  });

  it('may have several ways, of which one leads to pods', () => {
    const links = podLinks([
      { index: 4, name: 'flannel.1', kind: 'vxlan', master: undefined, peerIsInOtherNamespace: false },
    ]);
    const route = { ...routeOf('10.244.2.0/24 dev eth0', ['eth0']), links: [2, 4] };
    const texts = routesToPods(links, [route], () => false).map(({ text }) => text);
    assert.deepEqual(texts, ['10.244.2.0/24 dev flannel.1']);
  });
});
