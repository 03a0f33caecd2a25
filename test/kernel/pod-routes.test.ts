import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Box, createBox, createNeighbour } from '../lab/box.ts';
import { ip, makePodNetwork } from '../lab/pod-links.ts';
import { OTHER_NETWORKS, POD_NETWORKS, type PodNetwork } from '../lab/pod-networks.ts';
import { succeed } from '../lab/run.ts';
import { FAMILIES } from './support.ts';

const POD_ROUTES = new URL('../../lib/node/pod-routes.ts', import.meta.url);

/** Asks the node for its routes to pods; what fails is a text. */
const SCRIPT = `
  const { podRoutes } = await import(${JSON.stringify(POD_ROUTES)});
  const look = () => podRoutes(process.argv.slice(1));
  await look().catch(() => {});
  const start = process.cpuUsage();
  const found = await look().then((all) => all.map(({ text }) => text), ({ message }) => message);
  console.log(JSON.stringify({ found, took: Object.values(process.cpuUsage(start)).reduce((a, b) => a + b) / 1000 }));`;

async function found(box: Box, families: readonly string[] = FAMILIES) {
  const args = ['--input-type=module', '--eval', SCRIPT, ...families];
  const { found, took } = JSON.parse(await succeed(box.run(process.execPath, args)));
  return { found: Array.isArray(found) ? found.toSorted() : found, took: Math.round(took) };
}

/** Without those of a family that the kernel does not have. */
function told({ pods }: PodNetwork, families: readonly string[] = FAMILIES): readonly string[] {
  return pods.filter((text) => families.includes(text.includes(':') ? 'IPv6' : 'IPv4')).toSorted();
}

/** Commands for links that are there, and lead to nothing. */
const links = (...names: readonly string[]) =>
  names.flatMap((name, index) => [
    `link add ${name} type veth peer name p${index}`,
    `link set ${name} up`,
    `link set p${index} up`,
  ]);

describe('routes to pods in the kernel', () => {
  for (const network of [...POD_NETWORKS, ...OTHER_NETWORKS])
    it(`are ${network.pods.length === 0 ? 'none' : 'told'} of ${network.name}`, async () => {
      await using box = await createBox();
      await using pods = await createNeighbour(box);
      await makePodNetwork(box, pods, network);
      assert.deepEqual((await found(box)).found, told(network));
      assert.deepEqual((await found(box, ['IPv4'])).found, told(network, ['IPv4']));
    });

  it('are told of routes with several ways, and with a nexthop object', async () => {
    await using box = await createBox();
    await ip(
      box,
      ...links('eth0', 'flannel.1'),
      'route add 10.0.0.0/24 nexthop via 192.0.2.1 dev eth0 onlink nexthop via 192.0.2.2 dev flannel.1 onlink',
      'route add 10.0.1.0/24 nexthop via 192.0.2.1 dev eth0 onlink nexthop via 192.0.2.2 dev eth0 onlink',
      // These are no destinations of packets that are sent on.
      'route add 10.0.8.0/24 dev flannel.1 table local',
      'route add local 10.0.9.0/24 dev flannel.1 table 7',
      'nexthop add id 7 dev flannel.1',
      'route add 10.0.2.0/24 nhid 7',
      'nexthop add id 8 dev eth0',
      'nexthop add id 9 group 7/8',
      'route add 10.0.3.0/24 nhid 9',
    );
    const told = ['10.0.0.0/24', '10.0.2.0/24', '10.0.3.0/24'].map((text) => `${text} dev flannel.1`);
    assert.deepEqual((await found(box, ['IPv4'])).found, told);
  });

  it('are read fast if there are 1,000, and not at all if there are more than 100,000, or 20,000 to pods', async (t) => {
    await using box = await createBox();
    const routes = (count: number, table: number, link: string) =>
      Array.from(
        { length: count },
        (_, index) =>
          `route add 10.${index >> 16}.${(index >> 8) & 255}.${index & 255} dev ${link} table ${table}`,
      );
    await ip(box, ...links('eth0', 'cali0'), ...routes(1_000, 254, 'cali0'));
    const few = await found(box, ['IPv4']);
    assert.equal(few.found.length, 1_000);
    await ip(box, ...routes(99_000, 100, 'eth0'));
    const many = await found(box, ['IPv4']);
    assert.equal(many.found.length, 1_000);
    await ip(box, 'route add 192.0.2.0/24 dev eth0');
    const tooMany = await found(box, ['IPv4']);
    assert.equal(tooMany.found, 'there are more than 100000 routes');
    await ip(box, 'route flush table 100', ...routes(19_001, 101, 'cali0'));
    const kept = await found(box, ['IPv4']);
    assert.equal(kept.found, 'there are more than 20000 routes by links to pods');
    t.diagnostic(`CPU for 1,000 routes: ${few.took} ms; 100,000: ${many.took} ms; more: ${tooMany.took} ms`);
  });

  it('are not looked for on a node without a link to pods, whatever routes it has', async () => {
    await using box = await createBox();
    await ip(box, ...links('eth0'), 'route add 10.0.0.0/8 dev eth0');
    assert.deepEqual((await found(box)).found, []);
  });
});
