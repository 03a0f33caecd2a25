import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, inside, type NodeLab } from '../e2e/support.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { ip } from '../lab/pod-links.ts';
import { succeed } from '../lab/run.ts';
import { NO_LAB } from './support.ts';

const OUTSIDE = '203.0.113.9';
const IPTABLES = '--backend=iptables';

async function explained(node: NodeLab, backend: string): Promise<string> {
  const flags = ['--live', `--from=${POD.IPv4}`, backend, OUTSIDE];
  return (await node.agent('explain', ...flags)).stdout;
}

describe('packets to an address', { skip: NO_LAB }, () => {
  // https://github.com/aws/amazon-vpc-cni-k8s/issues/3800
  it('may be routed elsewhere by a mark: explain says by which link', async () => {
    await using node = await createNode();
    await using network = await createNetwork(node.box);
    await node.volume({ 'ip-masq-x': inside('10.0.0.0/8') });
    assert.equal((await node.agent('--once', IPTABLES)).code, 0);
    await ip(
      node.box,
      'link add second0 type veth peer name second1',
      'link set second0 up',
      'link set second1 up',
      'address add 198.51.100.7/24 dev second0',
      'route add default via 198.51.100.9 dev second0 table 100',
      'rule add fwmark 0x80/0x80 lookup 100',
      'rule add fwmark 0x40000/0xff0000 lookup main',
      'rule add fwmark 0x5 unreachable',
    );
    assert.equal((await network.sourceSeen(OUTSIDE)).address, NODE.IPv4);
    // A mark that leads to the same link is not told.
    assert.match(
      await explained(node, IPTABLES),
      /leaves by uplink0 through 192\.0\.2\.254 with 192\.0\.2\.1, but with the mark 0x5\/0xffffffff nowhere, but with the mark 0x80\/0x80 by second0 through 198\.51\.100\.9 \(routing table 100\) with 198\.51\.100\.7\n/,
    );
    // Of a node's own address, a route for a packet from it that comes in by a link is refused.
    const own = await node.agent('explain', '--live', `--from=${NODE.IPv4}`, IPTABLES, OUTSIDE);
    assert.match(
      own.stdout,
      /leaves by uplink0 through 192\.0\.2\.254 with 192\.0\.2\.1.*; 192\.0\.2\.1 is an address of this node: packets .* are left alone/,
    );
    // As with the rules of v1 and v2, or if somebody deletes the agent's.
    const ofNode = '-m addrtype --src-type LOCAL --limit-iface-out';
    assert.equal((await node.agent('--once', '--backend=nftables')).code, 0);
    for (const [backend, remove] of [
      [IPTABLES, `iptables-save -t nat | grep -v -e '${ofNode}' | iptables-restore`],
      [
        '--backend=nftables',
        "nft -a list chain ip ip-masq-agent postrouting | sed -n 's/.*fib saddr . oif.* handle/nft delete rule ip ip-masq-agent postrouting handle/p' | sh",
      ],
    ] as const) {
      assert.equal((await node.agent('--once', backend)).code, 0);
      const said = async () =>
        (await node.agent('explain', '--live', `--from=${NODE.IPv4}`, backend, OUTSIDE)).stdout;
      assert.match(await said(), /is an address of this node/);
      await succeed(node.box.run('sh', ['-c', remove]));
      assert.doesNotMatch(await said(), /is an address of this node/);
    }
    const marked = 'iptables -t mangle -A PREROUTING -i pod0 -j MARK --set-mark 0x80/0x80'.split(' ');
    await succeed(node.box.run(marked[0] ?? '', marked.slice(1)));
    await assert.rejects(network.sourceSeen(OUTSIDE), /no packet .* arrives/);
  });
});
