import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { shareOf } from '../../lib/agent/rollout.ts';
import { configHash } from '../../lib/config/config-hash.ts';
import type { AgentState } from '../../lib/status/status-json.ts';
import { mergedOf } from '../unit/config/support.ts';
import {
  answers,
  BINARY,
  eventually,
  faultyNode,
  inside,
  jsonLines,
  type NodeLab,
  type RunningAgent,
  SERVED,
} from './support.ts';

const [A, B, C] = [inside('10.1.0.0/16'), inside('10.2.0.0/16'), inside('10.3.0.0/16')];
const INVALID = inside('10.4.0.1/16');

/** A clock that SIGUSR2 sets. Nothing else of the machine sees it. */
const CLOCK = (ms: number) => `const real = Date.now;
let offset = 0;
Date.now = () => real() + offset;
process.on('SIGUSR2', () => { offset = ${ms}; });`;

const hashOf = (text: string) => configHash(mergedOf({ 'ip-masq-a': text }));

/** A name with its time in the middle of the window, whichever of the configs begins it. */
function middleName(): string {
  const names = Array.from({ length: 1_000 }, (_, index) => `node-${index}`);
  const isMiddle = (text: string, name: string) => Math.abs(shareOf(name, hashOf(text)) - 0.5) < 0.1;
  return names.find((name) => isMiddle(B, name) && isMiddle(C, name)) ?? assert.fail('no such name');
}

const NAME = middleName();

type Waves = Awaited<ReturnType<typeof waves>>;

/** A node whose agent has applied A, and runs. */
async function waves(clock?: string) {
  const node = await faultyNode(
    `export NODE_NAME=${NAME} NODE_OPTIONS=${clock === undefined ? '' : '--import=$DIR/clock.mjs'}; exec $AGENT "$@"`,
  );
  await writeFile(join(node.scratch, 'clock.mjs'), clock ?? '');
  await mkdir(join(node.dir, 'state'), { mode: 0o755 });
  const files = await node.volume({ 'ip-masq-a': A });
  const agentArgs = [
    ...['--backend=nftables', '--on-invalid-config=keep', '--resync-interval=2s', '--log-format=json'],
    SERVED,
  ];
  return {
    ...node,
    agentArgs,
    /** Starts an agent with this window, and waits for its server. */
    async begin(window: string, ...args: readonly string[]) {
      const agent = node.start(...agentArgs, `--rollout-window=${window}`, ...args);
      await agent.logged(/metrics, probes and status on/);
      return agent;
    },
    edit: async (text: string) => {
      await files.swap({ 'ip-masq-a': text });
    },
    /** The ranges of the config that the kernel holds. */
    held: async () => (await node.nft('list ruleset')).match(/10\.[1-9]\.0\.0\/16/)?.[0] ?? 'nothing',
    state: async (): Promise<AgentState> =>
      JSON.parse((await node.box.run(BINARY, ['status', '--output=json'])).stdout),
  };
}

const stateDir = (node: NodeLab) => `--state-dir=${join(node.dir, 'state')}`;

/** Waits until the config is pending, and returns its time. */
async function pendingTime(node: Waves, agent: RunningAgent, text: string): Promise<number> {
  await agent.logged(new RegExp(`config ${hashOf(text)} is pending: this node applies it at 20`));
  const { pending } = await node.state();
  assert.equal(pending?.hash, hashOf(text));
  return Date.parse(pending.appliedAt);
}

/** When the log says that the kernel got the config. */
async function appliedTime(agent: RunningAgent, cidr: string): Promise<number> {
  const pattern = new RegExp(`"\\+ [^"]*${cidr.replaceAll('.', '\\.')}`);
  await agent.logged(pattern);
  const line = jsonLines(agent.log()).findLast((one) => pattern.test(JSON.stringify(one)));
  return new Date(line?.['time'] as string | number).getTime();
}

/** On a busy machine a round comes late, but never early; the time that is shown has no fraction. */
function assertAbout(applied: number, foretold: number): void {
  assert.ok(applied >= foretold - 1_000, `${foretold - applied} ms too early`);
  assert.ok(applied <= foretold + 10_000, `${applied - foretold} ms too late`);
}

describe('a change within the rollout window', () => {
  it('is foretold everywhere', async () => {
    await using node = await waves();
    const agent = await node.begin('1h');
    const edited = Date.now();
    await node.edit(B);
    const foretold = await pendingTime(node, agent, B);
    assertAbout(foretold, edited + shareOf(NAME, hashOf(B)) * 3_600_000);
    await agent.logged(/IPv4: the verdict changes for 131,072 addresses; to stop it, revert the ConfigMap/);
    const line = new RegExp(`config ${hashOf(B)} is pending until 20\\S+Z`);
    assert.match(await node.run(BINARY, 'status'), line);
    for (const command of [
      ['explain', '192.0.2.1'],
      ['explain', '--live', '192.0.2.1'],
      ['diff'],
      ['doctor'],
    ]) {
      const { stderr } = await node.agent(...command);
      assert.match(
        stderr,
        /the agent uses another config than the files: config \S+ is pending until 20\S+Z$/m,
      );
    }
    await answers(node, '/statusz', line);
    await answers(
      node,
      '/configz',
      new RegExp(`"hash": "${hashOf(A)}"[^]*"pending": \\{\\s*"hash": "${hashOf(B)}"`),
    );
    await answers(node, '/metrics', /_pending_config_seconds [\d.]+/);
    assert.match(await node.metrics(), new RegExp(`_config_info\\{hash="${hashOf(A)}"\\} 1`));
    assert.match(await node.fetch('/readyz'), /^200 ok/);
    await agent.stop();
  });

  it('is applied at the time that is foretold', async () => {
    await using node = await waves();
    const agent = await node.begin('20s');
    await node.edit(B);
    const foretold = await pendingTime(node, agent, B);
    assert.equal(await node.held(), '10.1.0.0/16');
    assertAbout(await appliedTime(agent, '10.2.0.0/16'), foretold);
    assert.equal((await node.state()).pending, null);
    assert.equal((await node.state()).hash, hashOf(B));
    await eventually(
      async () => !/_pending_config_seconds \d/.test(await node.metrics()),
      () => 'no value of what is not pending',
    );
    await agent.stop();
  });

  it('is never applied if it is reverted before; after it, going back is at once', async () => {
    await using node = await waves();
    const agent = await node.begin('1h');
    await node.edit(B);
    await pendingTime(node, agent, B);
    await node.edit(A);
    await agent.logged(new RegExp(`config ${hashOf(B)} is no longer pending`));
    assert.equal((await node.state()).pending, null);
    await node.edit(B);
    await eventually(
      async () => (await node.state()).pending !== null,
      () => 'the config',
    );
    agent.kill('SIGHUP');
    await appliedTime(agent, '10.2.0.0/16');
    await node.edit(A);
    await eventually(
      async () => (await node.held()) === '10.1.0.0/16',
      () => 'the config from before',
    );
    await agent.stop();
  });
});

/** What happens in the window, to a node where B is pending. `window` is long enough for a slow machine. */
const ROWS: readonly {
  readonly what: string;
  readonly window: string;
  readonly clock?: string;
  readonly args?: (node: NodeLab) => readonly string[];
  readonly proceed: (node: Waves, agent: RunningAgent, foretold: number) => Promise<RunningAgent>;
}[] = [
  {
    what: 'steady edits do not put it off, and the last one is applied',
    window: '20s',
    async proceed(node, agent, foretold) {
      let last = B;
      for (let index = 0; Date.now() < foretold - 1_500; index += 1) {
        last = inside(`10.2.${index % 250}.0/24`, '10.3.0.0/16');
        await node.edit(last);
        await delay(1_000);
      }
      assertAbout(await appliedTime(agent, '10.3.0.0/16'), foretold);
      await eventually(
        async () => (await node.state()).hash === hashOf(last),
        () => 'the last edit',
      );
      return agent;
    },
  },
  {
    what: 'an invalid config is told at once and stops it; the next valid one has a window of its own',
    window: '20s',
    async proceed(node, agent, foretold) {
      await node.edit(INVALID);
      await agent.logged(/1 error in the config; the config that was applied last stays in use/);
      assert.equal((await node.state()).pending, null);
      await delay(Math.max(0, foretold - Date.now()) + 2_500);
      assert.equal(await node.held(), '10.1.0.0/16');
      await node.edit(C);
      const second = await pendingTime(node, agent, C);
      assertAbout(await appliedTime(agent, '10.3.0.0/16'), second);
      return agent;
    },
  },
  ...[3_600_000, -3_600_000].map((ms) => ({
    what: `a clock that is set by ${ms / 3_600_000} hour changes nothing but what is shown`,
    window: '20s',
    clock: CLOCK(ms),
    async proceed(node: Waves, agent: RunningAgent, foretold: number) {
      agent.kill('SIGUSR2');
      await eventually(
        async () =>
          Math.abs(Date.parse((await node.state()).pending?.appliedAt ?? '') - ms - foretold) <= 1_000,
        () => 'the time as the new clock says it',
      );
      await agent.logged(/"reason":"resync".*10\.2\.0\.0/);
      assertAbout(Date.now(), foretold);
      return agent;
    },
  })),
  {
    what: 'a restart keeps the rules, and the time',
    window: '60s',
    async proceed(node, agent, foretold) {
      // Longer than the times may differ if they are the same.
      await delay(4_000);
      agent.kill('SIGKILL');
      await agent.ended;
      const second = await node.begin('60s');
      assert.ok(Math.abs((await pendingTime(node, second, B)) - foretold) <= 1_000);
      assert.match(await node.run(BINARY, 'status'), /the rules are those of an earlier run/);
      assert.match(await node.fetch('/readyz'), /^200 ok/);
      assert.equal(await node.held(), '10.1.0.0/16');
      assertAbout(await appliedTime(second, '10.2.0.0/16'), foretold);
      return second;
    },
  },
  {
    what: 'a restart that does not know the config in use applies the new one if the rules go',
    window: '1h',
    async proceed(node, agent) {
      agent.kill('SIGKILL');
      await agent.ended;
      const second = await node.begin('1h');
      await pendingTime(node, second, B);
      await node.nft('delete table ip ip-masq-agent');
      await appliedTime(second, '10.2.0.0/16');
      return second;
    },
  },
  {
    what: 'a restart with a state directory knows the config in use, and repairs it',
    window: '1h',
    args: (node) => [stateDir(node)],
    async proceed(node, agent) {
      agent.kill('SIGKILL');
      await agent.ended;
      const second = await node.begin('1h', stateDir(node));
      await pendingTime(node, second, B);
      assert.equal((await node.state()).hash, hashOf(A));
      await node.nft('delete table ip ip-masq-agent');
      await second.logged(/repaired/);
      assert.equal(await node.held(), '10.1.0.0/16');
      return second;
    },
  },
  {
    what: 'a reboot applies it',
    window: '1h',
    args: (node) => [stateDir(node)],
    async proceed(node, agent) {
      agent.kill('SIGKILL');
      await agent.ended;
      await node.nft('flush ruleset');
      const second = await node.begin('1h', stateDir(node));
      assert.equal(await node.held(), '10.2.0.0/16');
      return second;
    },
  },
];

describe('in the rollout window', () => {
  for (const { what, window, clock, args = () => [], proceed } of ROWS)
    it(what, async () => {
      await using node = await waves(clock);
      const agent = await node.begin(window, ...args(node));
      await node.edit(B);
      const foretold = await pendingTime(node, agent, B);
      const last = await proceed(node, agent, foretold);
      await last.stop();
    });
});

describe('--rollout-window', () => {
  for (const [what, script, args, message] of [
    ['without an agent that stays', '', [], /needs an agent that stays .*: add --on-invalid-config=keep/],
    [
      'without the name of the node',
      'unshare --uts sh -c \'echo > /proc/sys/kernel/hostname; exec "$0" "$@"\'',
      ['--on-invalid-config=keep'],
      /needs the name of the node: set NODE_NAME/,
    ],
  ] as const)
    it(`is an error of usage ${what}`, async () => {
      await using node = await faultyNode(`exec ${script} $AGENT "$@"`);
      const { code, stderr } = await node.agent('--rollout-window=30m', ...args);
      assert.match(stderr, message);
      assert.equal(code, 2);
    });

  it('does not delay --once', async () => {
    await using node = await waves();
    assert.equal((await node.agent(...node.agentArgs, '--once')).code, 0);
    await node.edit(B);
    assert.equal((await node.agent(...node.agentArgs, '--once', '--rollout-window=1h')).code, 0);
    assert.equal(await node.held(), '10.2.0.0/16');
  });
});
