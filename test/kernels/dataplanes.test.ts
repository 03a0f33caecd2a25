/** What a virtual machine of `make test-kernels` shows beside the tests of the other folders. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { createNode } from '../e2e/support.ts';
import { HAS_IPV6 } from '../lab/ipv6.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { DATAPLANES } from '../packets/support.ts';

/** The dataplanes that the kernel cannot have. */
const LACKS = process.env['KERNEL_LACKS']?.split(',') ?? [];

it('--backend=auto takes what the kernel has', async (t) => {
  await using node = await createNode();
  // Without NAT in nf_tables, kubelet uses legacy mode.
  if (LACKS.includes('iptables-nft') && !LACKS.includes('iptables-legacy'))
    await node.run('iptables-legacy', '-t', 'mangle', '-N', 'KUBE-KUBELET-CANARY');
  await using network = await createNetwork(node.box);
  const { code, stderr } = await node.agent('--once');
  assert.equal(code, 0, stderr);
  const chosen = [...stderr.matchAll(/"msg":"using (.*?)"/g)].at(-1)?.[1] ?? assert.fail(stderr);
  // Such as `iptables 1.8.9 (nft)` and `nftables`.
  const [, dataplane, mode] = /^(\w+)(?: \S+ \((\w+)\))?: /.exec(chosen) ?? assert.fail(chosen);
  assert.ok(!LACKS.includes(mode === undefined ? `${dataplane}` : `${dataplane}-${mode}`), chosen);
  const seen = await network.sourcesSeen(['8.8.8.8', '10.0.0.1']);
  assert.deepEqual(
    seen.map(({ address }) => address),
    [NODE.IPv4, POD.IPv4],
  );
  const again = await node.agent('--once');
  assert.ok(again.stderr.includes(`"msg":"using ${chosen}"`), again.stderr);
  t.diagnostic(chosen);
});

for (const { name, flags } of DATAPLANES) {
  const isThere = !LACKS.includes(name);

  it(`the agent starts, or says what it lacks, ${name}`, async (t) => {
    await using node = await createNode();
    const { code, stderr } = await node.agent('--once', ...flags);
    if (isThere) return assert.equal(code, 0, stderr);
    assert.equal(code, 1, stderr);
    const lines = stderr.trim().split('\n');
    const { level, msg } = JSON.parse(lines.at(-1) ?? '');
    assert.equal(level, 'fatal', stderr);
    // A message that names neither a module nor another dataplane tells nobody what to do, and to try again is of no use.
    assert.match(msg, /\b(?:xt|nft?|ip6?)_[a-z]/i);
    assert.match(msg, /--(?:backend|iptables-mode)=/);
    assert.doesNotMatch(stderr, /trying again/);
    t.diagnostic(`${name}: ${msg}`);
  });

  it(`--enable-ipv6 where IPv6 is turned off, ${name}`, { skip: HAS_IPV6 }, async () => {
    await using node = await createNode();
    const before = await node.run('iptables-legacy', '-t', 'nat', '-S');
    const { code, stderr } = await node.agent('--once', '--enable-ipv6', ...flags);
    // nf_tables has rules of IPv6 that meet no packets.
    if (name !== 'iptables-legacy') return assert.equal(code, 0, stderr);
    assert.equal(code, 1, stderr);
    assert.match(stderr, /ipv6\.disable=1.*leave out --enable-ipv6/);
    assert.equal(await node.run('iptables-legacy', '-t', 'nat', '-S'), before);
  });
}
