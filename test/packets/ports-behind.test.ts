import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode } from '../e2e/support.ts';
import { FAMILIES } from '../kernel/support.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { succeed } from '../lab/run.ts';
import { PORT } from '../lab/volley.ts';
import { NO_LAB } from './support.ts';

const TO = {
  IPv4: ['203.0.113.9', '203.0.113.10', '203.0.113.11'],
  IPv6: ['2606:4700::1', '2606:4700::2', '2606:4700::3'],
} as const;
/** What kube-proxy would translate to the first destination. */
const SERVICE = { IPv4: '198.51.100.1', IPv6: '2606:ffff::1' } as const;

/** Masquerades with one port, which so has one connection to each destination. */
const RULES = FAMILIES.map((family) => {
  const ip = family === 'IPv4' ? 'ip' : 'ip6';
  return `table ${ip} t {
    chain services { type nat hook prerouting priority -100; ${ip} daddr ${SERVICE[family]} dnat to ${TO[family][0]}; }
    chain leaving { type nat hook postrouting priority 100; oifname "uplink0" meta l4proto { tcp, udp } masquerade to :40001; }
  }\n`;
}).join('');

interface Connection {
  readonly protocol: string;
  readonly source: string;
  readonly destination: string;
  readonly through: string | null;
  readonly since: string | null;
}

describe('the pods behind an address and port', { skip: NO_LAB }, () => {
  for (const family of FAMILIES)
    it(`are told, and to where, as the kernel holds them: ${family}`, async () => {
      await using node = await createNode();
      await using network = await createNetwork(node.box);
      await succeed(node.box.run('nft', ['-f', '-'], { input: RULES }));
      const set = '/proc/sys/net/netfilter/nf_conntrack_timestamp';
      const text = (address: string, port: number) =>
        family === 'IPv4' ? `${address}:${port}` : `[${address}]:${port}`;
      const [first, second, third] = TO[family];
      const send = (port: number, protocol: 'tcp' | 'udp', to: readonly string[]) =>
        network.sourcesSeen(to, { protocol, source: { address: POD[family], port } });
      const sent = await send(20_001, 'udp', [second]);
      assert.deepEqual(sent, [{ address: NODE[family], port: 40_001 }]);
      await succeed(node.box.run('tee', [set], { input: '1' }));
      const began = Date.now();
      await send(20_002, 'udp', [SERVICE[family]]);
      await send(20_003, 'tcp', [first]);

      const asked = text(NODE[family], 40_001);
      const told = async (...args: readonly string[]) => {
        const { code, stdout, stderr } = await node.agent('ports', ...args);
        assert.equal(code, 0, stderr);
        return stdout;
      };
      const connections = async (...args: readonly string[]): Promise<readonly Connection[]> =>
        JSON.parse(await told(asked, ...args, '--output=json')).connections;
      const udp = await connections('udp');
      assert.deepEqual(
        udp.map(({ since, ...one }) => one).toSorted((a, b) => (a.source < b.source ? -1 : 1)),
        [
          {
            protocol: 'udp',
            source: text(POD[family], 20_001),
            destination: text(second, PORT),
            through: null,
          },
          {
            protocol: 'udp',
            source: text(POD[family], 20_002),
            destination: text(first, PORT),
            through: text(SERVICE[family], PORT),
          },
        ],
      );
      const [since] = udp.flatMap(({ since }) => since ?? []);
      assert.ok(Math.abs(Date.parse(since ?? '') - began) < 60_000, since);
      assert.deepEqual((await connections()).map(({ protocol }) => protocol).toSorted(), [
        'tcp',
        'udp',
        'udp',
      ]);
      for (const to of [text(second, PORT), second, text(SERVICE[family], PORT)])
        assert.equal((await connections('udp', `--to=${to}`)).length, 1, to);
      assert.deepEqual(await connections('sctp'), []);
      assert.match(await told(asked, 'tcp'), new RegExp(`^tcp \\S+:20003 to \\S+:${PORT} since `));

      const none = await told(text(NODE[family], 40_002), 'udp');
      assert.match(
        none,
        /^no connection is behind \S+ now\nan entry lives .*udp_timeout \d+ s.*log of flows/,
      );
      assert.match(await told(text(first, 40_002)), /which is not an address of this node\n$/);
      assert.match(
        await told(`--of=${POD[family]}`),
        new RegExp(`^1 port of \\S+ to \\w+ \\S+:${PORT}: 40001\\n(?:.*\\n){2}3 connections of `),
      );
      const ownPorts = `flush ruleset\n${RULES.replaceAll(' to :40001', '')}`;
      await succeed(node.box.run('nft', ['-f', '-'], { input: ownPorts }));
      for (let port = 21_000; port < 21_012; port += 1) await send(port, 'udp', [third]);
      assert.match(
        await told(`--of=${POD[family]}`),
        new RegExp(`^12 ports of \\S+ to udp \\S+:${PORT}: (?:\\d+, ){9}\\d+, and 2 more\\n`),
      );
    });
});
