import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Finding } from '../../lib/doctor/finding.ts';
import { type Box, createBox, createNeighbour } from '../lab/box.ts';
import { succeed } from '../lab/run.ts';
import { FAMILIES, type Family } from './support.ts';

const LIB = new URL('../../lib/', import.meta.url);
const ADVERTISE = fileURLToPath(new URL('../lab/router-advertisement.pl', import.meta.url));

const SCRIPT = `
  const [{ forwardingFindings }, { systemHost }, { Netlink, ownSockets }] = await Promise.all(
    ['doctor/machine-findings.ts', 'dataplane/host.ts', 'dataplane/netlink.ts'].map((path) => import(${JSON.stringify(LIB)} + path)));
  const host = systemHost(10_000, new Netlink(ownSockets, () => {}));
  const [, family] = process.argv;
  console.log(JSON.stringify(await forwardingFindings(host, [family])));`;

const SERVER = `require('node:net').createServer((socket) => socket.end()).listen(80, '::', () => console.log('ready'));`;
const CLIENT = `
  const socket = require('node:net').connect(80, process.argv[1], () => process.exit(0));
  socket.on('error', () => process.exit(1));
  setTimeout(() => process.exit(1), 500);`;

/** The link of the pods has a dot in its name, and that to the outside has its default route of IPv6 by router advertisement. */
const [PODS, UPLINK] = ['vp.7', 'uplk'];

/** What is set, and whether packets of pods get to the outside and back. */
const CASES: readonly (readonly [family: Family, passes: boolean, ...settings: readonly string[]])[] = [
  ['IPv4', false, 'ipv4/ip_forward=0'],
  ['IPv4', false, 'ipv4/ip_forward=1', `ipv4/conf/${PODS}/forwarding=0`],
  ['IPv4', false, 'ipv4/ip_forward=1', `ipv4/conf/${UPLINK}/forwarding=0`],
  // projectcalico/cni-plugin#283, projectcalico/felix#1376
  ['IPv4', true, 'ipv4/ip_forward=0', `ipv4/conf/${PODS}/forwarding=1`, `ipv4/conf/${UPLINK}/forwarding=1`],
  ['IPv4', false, 'ipv4/ip_forward=0', `ipv4/conf/${UPLINK}/forwarding=1`],
  ['IPv4', true, 'ipv4/ip_forward=1', 'ipv4/conf/default/forwarding=0'],
  // cilium/cilium#21819, k3s-io/k3s#5019
  ['IPv6', false, 'ipv6/conf/all/forwarding=0'],
  ['IPv6', true, 'ipv6/conf/all/forwarding=1', `ipv6/conf/${PODS}/forwarding=0`],
  [
    'IPv6',
    true,
    'ipv6/conf/all/forwarding=0',
    `ipv6/conf/${PODS}/force_forwarding=1`,
    `ipv6/conf/${UPLINK}/force_forwarding=1`,
  ],
  ['IPv6', false, 'ipv6/conf/all/forwarding=0', `ipv6/conf/${PODS}/force_forwarding=1`],
];

describe('whether the kernel forwards packets of pods', () => {
  for (const [family, passes, ...settings] of CASES.filter(([family]) => FAMILIES.includes(family)))
    it(`is known, and what doctor says to do helps: ${settings.join(' ')}`, async (t) => {
      await using node = await createBox();
      await using pod = await createNeighbour(node);
      await using outside = await createNeighbour(node);
      await join(node, pod, outside);
      const server = outside.spawn(process.execPath, ['--eval', SERVER], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      if (server.stdout !== null) await once(server.stdout, 'data');
      for (const setting of settings) {
        const [path = '', value = ''] = setting.split('=');
        const { code } = await node.run('tee', [`/proc/sys/net/${path}`], { input: value });
        if (code !== 0 && path.endsWith('/force_forwarding')) return t.skip('before Linux 6.17');
        assert.equal(code, 0, setting);
      }
      if (settings.includes('ipv6/conf/all/forwarding=0')) await advertise(node, outside);
      assert.equal(await reaches(pod, family), passes);
      const hadDefault = await hasDefault(node);
      const found = await findings(node, family);
      assert.equal(found.length, passes ? 0 : 1, JSON.stringify(found));
      for (const { remedy } of found) {
        await carryOut(node, remedy);
        assert.deepEqual(await findings(node, family), []);
        assert.ok(await reaches(pod, family), remedy);
      }
      assert.equal(await hasDefault(node), hadDefault);
    });

  it('is asked of all links together if no pods are known', async () => {
    await using node = await createBox();
    const [finding] = await findings(node, 'IPv4');
    assert.deepEqual(finding?.evidence, ['net.ipv4.ip_forward = 0']);
  });
});

async function join(node: Box, pod: Box & { pid: number }, outside: Box & { pid: number }): Promise<void> {
  const ip = (box: Box, ...lines: readonly string[]) =>
    succeed(box.run('ip', ['-batch', '-'], { input: lines.map((line) => `${line}\n`).join('') }));
  await ip(
    node,
    `link add ${PODS} type veth peer name eth0 netns ${pod.pid}`,
    `link add ${UPLINK} type veth peer name eth0 netns ${outside.pid}`,
  );
  const ends = [
    [node, PODS, '10.1.0.1', 'fd01::1'],
    [node, UPLINK, '10.2.0.1', 'fd02::1'],
    [pod, 'eth0', '10.1.0.2', 'fd01::2'],
    [outside, 'eth0', '10.2.0.2', 'fd02::2'],
  ] as const;
  for (const [box, link, ipv4, ipv6] of ends) {
    await box.run('tee', [`/proc/sys/net/ipv6/conf/${link}/accept_dad`], { input: '0' });
    await ip(
      box,
      `link set ${link} up`,
      `address add ${ipv4}/24 dev ${link}`,
      ...(FAMILIES.includes('IPv6') ? [`address add ${ipv6}/64 dev ${link} nodad`] : []),
    );
  }
  // By a pair, each pod has a route of its own.
  await ip(node, `route add 10.1.0.2 dev ${PODS}`, 'route add default via 10.2.0.2');
  await ip(pod, 'route add default via 10.1.0.1');
  await ip(outside, 'route add default via 10.2.0.1');
  if (!FAMILIES.includes('IPv6')) return;
  await ip(node, `route add fd01::2 dev ${PODS}`);
  await ip(pod, 'route add default via fd01::1');
  await ip(outside, 'route add default via fd02::1');
}

/** Gives the node its default route of IPv6, as a router does. */
async function advertise(node: Box, outside: Box): Promise<void> {
  const index = (await succeed(outside.run('ip', ['-o', 'link', 'show', 'eth0']))).split(':')[0] ?? '';
  while (!(await hasDefault(node))) await succeed(outside.run('perl', [ADVERTISE, index]));
}

async function carryOut(node: Box, remedy: string): Promise<void> {
  const [, settings = ''] = /^set (.*) in \/etc\/sysctl\.d/.exec(remedy) ?? [];
  await succeed(node.run('sysctl', ['-qw', ...settings.split(', ')]));
}

async function reaches(pod: Box, family: Family): Promise<boolean> {
  const address = family === 'IPv4' ? '10.2.0.2' : 'fd02::2';
  return (await pod.run(process.execPath, ['--eval', CLIENT, address])).code === 0;
}

async function hasDefault(node: Box): Promise<boolean> {
  return (await succeed(node.run('ip', ['-6', 'route', 'show', 'default']))) !== '';
}

async function findings(node: Box, family: Family): Promise<readonly Finding[]> {
  const args = ['--input-type=module', '--eval', SCRIPT, family];
  return JSON.parse(await succeed(node.run(process.execPath, args)));
}
