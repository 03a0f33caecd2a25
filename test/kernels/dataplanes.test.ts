/** What a virtual machine of `make test-kernels` shows beside the tests of the other folders. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createNode, SERVED } from '../e2e/support.ts';
import { memoryCgroup } from '../lab/cgroups.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { DATAPLANES } from '../packets/support.ts';

/** The dataplanes that the kernel cannot have. */
const LACKS = process.env['KERNEL_LACKS']?.split(',') ?? [];

const MANIFEST = new URL('../../examples/kubernetes/base/daemonset.yaml', import.meta.url);
const MIB = 2 ** 20;
/** How long the agent is watched after a change: it looks at foreign rules and connections again. */
const WATCHED_MS = 2_000;

const source = (second: number) => {
  const cidrs = Array.from({ length: 1_000 }, (_, index) => `10.${index >> 8}.${index & 255}.${second}/32`);
  return { 'ip-masq-a': `cidrLimit: 1000\nnonMasqueradeCIDRs: [${cidrs.join(', ')}]\n` };
};

it('--backend=auto takes what the kernel has', async (t) => {
  await using node = await createNode();
  await using network = await createNetwork(node.box);
  const { code, stderr } = await node.agent('--once');
  assert.equal(code, 0, stderr);
  const chosen = [...stderr.matchAll(/"msg":"using (.*?)"/g)].at(-1)?.[1] ?? assert.fail(stderr);
  const [, dataplane, , mode] = /^(\S+) (\S+)(?: \((\w+)\))?: /.exec(chosen) ?? assert.fail(chosen);
  assert.ok(!LACKS.includes(mode === undefined ? `${dataplane}` : `${dataplane}-${mode}`), chosen);
  const seen = await network.sourcesSeen(['8.8.8.8', '10.0.0.1']);
  assert.deepEqual(
    seen.map(({ address }) => address),
    [NODE.IPv4, POD.IPv4],
  );
  const again = await node.agent('--once');
  assert.match(again.stderr, new RegExp(`"msg":"using ${dataplane} .*: rules of the agent are there`));
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

  it(`a second agent changes nothing, ${name}`, async () => {
    await using node = await createNode();
    const agent = node.start(...flags);
    await agent.logged(/rules added/);
    const { code, stderr } = await node.agent('--once', '--sync-timeout=300ms', ...flags);
    assert.equal(code, 1);
    assert.match(stderr, /another agent holds .*, and did not end within/);
    await agent.stop();
  });

  it(`1,000 CIDRs need no more memory than the manifest allows, ${name}`, async (t) => {
    const limit = /limits: \{memory: (\d+)Mi\}/.exec(readFileSync(MANIFEST, 'utf8'))?.[1] ?? assert.fail();
    await using cgroup = await memoryCgroup(Number(limit) * MIB);
    await using node = await createNode(undefined, cgroup);
    const volume = await node.volume(source(1));
    const agent = node.start(SERVED, ...flags);
    await agent.logged(/rules added/);
    await volume.swap(source(2));
    // A command that runs in the pod, perhaps before the change: neither source lists the address.
    const { code, stdout } = await node.agent('explain', '--live', '10.0.0.3');
    assert.equal(code, 0, stdout);
    await agent.logged(/"reason":"change"/);
    await delay(WATCHED_MS);
    assert.equal(await cgroup.kills(), 0, agent.log());
    // Older kernels do not tell it.
    const peak = await cgroup.peak().catch(() => undefined);
    if (peak !== undefined) t.diagnostic(`${name}: ${(peak / MIB).toFixed(1)} of ${limit} MiB`);
    await agent.stop();
  });
}
