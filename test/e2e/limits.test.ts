/** What neighbours on the node can cost: each row of "Limits" in SECURITY.md, within the manifest's memory limit. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { memoryCgroup, whyNoMemoryCgroup } from '../lab/cgroups.ts';
import { startTracker } from '../lab/helpers.ts';
import { owning } from '../lab/owning.ts';
import { succeed } from '../lab/run.ts';
import { RUNS } from '../lab/runs.ts';
import type { ProjectedVolume } from '../lab/volume.ts';
import { createNode, eventually, inside, type NodeLab, type RunningAgent, SERVED } from './support.ts';

const BACKENDS = ['iptables', 'nftables'] as const;
const MIB = 2 ** 20;

/** The limit of SECURITY.md, and the higher one of the manifest, in MiB. */
const LIMIT = 64;
const MANIFEST_LIMIT = 96;

/** How long the agent is watched after a change: it looks at foreign rules and connections again. */
const WATCHED_MS = 2_000;

/** A node whose agent has so many MiB. */
const createLab = (limit = LIMIT) =>
  owning(async (stack) => {
    const cgroup = stack.use(await memoryCgroup(limit * MIB));
    const node = stack.use(await createNode(undefined, cgroup));
    return { node, cgroup };
  });

type Lab = Awaited<ReturnType<typeof createLab>>;

/** Starts the agent. */
async function start({ node }: Lab, ...flags: string[]): Promise<[RunningAgent, ProjectedVolume]> {
  const volume = await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
  const agent = node.start(SERVED, ...flags);
  await agent.logged(/rules added/);
  return [agent, volume];
}

/** How long a change of the config takes until the agent has logged it, in milliseconds. */
async function changed(agent: RunningAgent, volume: ProjectedVolume, cidr: string): Promise<number> {
  const before = agent.log().length;
  let killed: unknown;
  agent.ended.then((end) => {
    killed = end;
  });
  const began = await volume.swap({ 'ip-masq-a': inside(cidr) });
  await eventually(
    () => killed !== undefined || /"reason":"change"/.test(agent.log().slice(before)),
    () => `the change; the log is:\n${agent.log()}`,
  );
  assert.equal(killed, undefined, agent.log());
  return performance.now() - began;
}

/** How many foreign rules a chain has: the tools need a minute to write the most. */
const MANY = RUNS > 1 ? 100_000 : 30_000;

/** Runs the agent, changes its config after something that happens beside it, and has the kernel kill nothing. */
async function survives(
  t: TestContext,
  lab: Lab,
  backend: string,
  beside: (agent: RunningAgent) => Promise<unknown>,
): Promise<void> {
  const [agent, volume] = await start(lab, `--backend=${backend}`);
  await beside(agent);
  const took = await changed(agent, volume, '172.16.0.0/12');
  await delay(WATCHED_MS);
  t.diagnostic(
    `${backend}: ${((await lab.cgroup.peak()) / MIB).toFixed(1)} MiB, a change in ${Math.round(took)} ms`,
  );
  assert.equal(await lab.cgroup.kills(), 0, agent.log());
  await agent.stop();
}

describe('a neighbour cannot end the agent', { skip: await whyNoMemoryCgroup() }, () => {
  it('with 1,000 tables of nftables', async (t) => {
    await using lab = await createLab();
    const script = Array.from(
      { length: 1_000 },
      (_, index) => `add table ip cni${index}
add chain ip cni${index} post { type nat hook postrouting priority 100; }
add rule ip cni${index} post ip saddr 10.244.${index & 255}.0/24 counter masquerade\n`,
    );
    await succeed(lab.node.box.run('nft', ['-f', '-'], { input: script.join('') }));
    for (const backend of BACKENDS)
      await survives(t, lab, backend, async () => {
        assert.match((await lab.node.agent('doctor')).stdout, /not read: more than 100 chains of NAT/);
      });
    const { code, stdout } = await lab.node.agent('cleanup');
    assert.equal(code, 0, stdout);
    await lab.node.agent('doctor');
    assert.equal(await lab.cgroup.kills(), 0);
  });

  for (const [what, fill] of [
    [
      `a chain of iptables with ${MANY} rules`,
      async ({ box }: NodeLab) => {
        const rules = Array.from(
          { length: MANY },
          (_, index) =>
            `-A BIG -s 10.${index >> 16}.${(index >> 8) & 255}.${index & 255}/32 -m comment --comment "rule ${index} of a plugin" -j RETURN\n`,
        );
        const input = `*nat\n:BIG - [0:0]\n-A POSTROUTING -j BIG\n${rules.join('')}COMMIT\n`;
        await succeed(box.run('iptables-nft-restore', ['--noflush'], { input }));
      },
    ],
    [
      `a chain of nftables with ${MANY} rules`,
      async ({ box }: NodeLab) => {
        const rules = Array.from(
          { length: MANY },
          (_, index) =>
            `add rule ip site big ip saddr 10.${index >> 16}.${(index >> 8) & 255}.${index & 255} counter return\n`,
        );
        const input = `add table ip site
add chain ip site big
add chain ip site post { type nat hook postrouting priority 100; }
add rule ip site post jump big\n${rules.join('')}`;
        await succeed(box.run('nft', ['-f', '-'], { input }));
      },
    ],
  ] as const)
    it(`with ${what}`, async (t) => {
      await using lab = await createLab();
      await fill(lab.node);
      for (const backend of BACKENDS)
        await survives(t, lab, backend, async () => {
          assert.match(
            (await lab.node.agent('doctor')).stdout,
            /not read: table ip .*the reply is above 2097152 bytes/,
          );
        });
    });

  it('with 262,144 connections, and a command that lists their ports', async (t) => {
    await using lab = await createLab();
    await using tracker = await startTracker(lab.node.box);
    assert.equal(await tracker.ask({ kind: 'fill', flows: 262_144 }), true);
    await survives(t, lab, 'nftables', async () => {
      const { code, stdout, stderr } = await lab.node.agent('ports');
      assert.equal(code, 0, stderr);
      assert.match(stdout, /262144 connections/);
    });
  });

  it('with 50,000 files in the directory', async (t) => {
    // The agent reads all names again while files come, and how much of them is garbage depends on the load of the machine.
    await using lab = await createLab(MANIFEST_LIMIT);
    const { node, cgroup } = lab;
    writeFileSync(join(node.configDir, 'ip-masq-a'), 'nonMasqueradeCIDRs: [10.0.0.0/8]\n');
    const agent = node.start(SERVED, '--on-invalid-config=keep');
    await agent.logged(/rules added/);
    for (let index = 0; index < 50_000; index += 1) {
      writeFileSync(join(node.configDir, `ip-masq-${index}`), 'nonMasqueradeCIDRs: []\n');
      if (index % 1_000 === 0) await setImmediate();
    }
    await agent.logged(/beyond the limit of 1000 config files/);
    await delay(WATCHED_MS);
    t.diagnostic(`${((await cgroup.peak()) / MIB).toFixed(1)} MiB`);
    assert.equal(await cgroup.kills(), 0, agent.log());
    await agent.stop();
  });
});
