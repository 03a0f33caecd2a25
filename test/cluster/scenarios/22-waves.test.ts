import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { shareOf } from '../../../lib/agent/rollout.ts';
import { configHash } from '../../../lib/config/config-hash.ts';
import type { AgentState } from '../../../lib/status/status-json.ts';
import { merge } from '../../unit/config/support.ts';
import {
  ALL_INSIDE,
  cidrs,
  configFileText,
  PODS_INSIDE,
  podsInside,
  routes,
  untilPackets,
  verdictOf,
} from '../lab/packets.ts';
import { type Lab, type LabNode, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

const WINDOW_MS = 60_000;
/** The places in the window of the first node and of the other: enough time before each of them, and behind the first. */
const EARLY = [0.4, 0.55] as const;
const LATE = [0.8, 1] as const;
/** How exactly packets change at the time that `status` has told. */
const EXACT_MS = 2_000;

/** A node, and when it applies what is pending. */
interface Turn {
  readonly node: LabNode;
  readonly at: number;
}

scenario(
  'a change reaches one node after the other, and stops at the first if it is reverted',
  async (lab) => {
    const args = [`--rollout-window=${WINDOW_MS / 1000}s`];
    await lab.agent.deploy({ configFiles: podsInside(lab), components: ['waves'], args });
    await untilPackets(lab, PODS_INSIDE);
    const revert = async () => {
      await lab.agent.write('ip-masq-operator', configFileText(lab, 'pods'));
      await untilPackets(lab, PODS_INSIDE);
    };
    for (const turn of await change(lab, 0)) await takesTurn(lab, turn);
    await untilPackets(lab, ALL_INSIDE);
    // What has been applied goes back at once.
    await revert();

    // A node that has had the first change would go back to it at once.
    const [first, second] = await change(lab, 128);
    await takesTurn(lab, first);
    await revert();
    assert.ok(Date.now() < second.at, 'the second node has not applied it yet');
    while (Date.now() < second.at + 2 * EXACT_MS) {
      assert.deepEqual(await verdicts(lab, second.node), ['masqueraded']);
      await delay(200);
    }
  },
);

/** Leaves packets to the nodes alone, by a config in whose window the two nodes are apart. */
async function change(lab: Lab, from: number): Promise<readonly [Turn, Turn]> {
  const { text, hash } = apart(lab, from);
  await lab.agent.write('ip-masq-operator', text);
  const turns = await Promise.all(
    lab.nodes.map(async (node) => {
      const { pending } = await until(
        `config ${hash} to be pending on ${node.name}`,
        async (): Promise<AgentState> =>
          JSON.parse((await lab.agent.exec(node.name, 'ip-masq-agent', 'status', '--output=json')).stdout),
        (state) => state.pending?.hash === hash,
      );
      return { node, at: Date.parse(pending?.appliedAt ?? '') };
    }),
  );
  const [first, second] = turns.toSorted((one, other) => one.at - other.at);
  assert.ok(first !== undefined && second !== undefined && second.at - first.at > EXACT_MS);
  return [first, second];
}

/** A range that nobody uses makes the hash one of many, and the verdicts others. */
function apart(lab: Lab, first: number): { readonly text: string; readonly hash: string } {
  const isIn = (share = 0, [from, to]: readonly [number, number] = EARLY) => share >= from && share < to;
  for (let third = first; third < first + 128; third += 1) {
    const list = [...cidrs(lab, 'pods', 'nodes'), `198.18.${third}.0/24`];
    const text = `nonMasqueradeCIDRs: ${JSON.stringify(list)}\n`;
    const { config } = merge({ 'ip-masq-cloud': configFileText(lab), 'ip-masq-operator': text });
    const hash = configHash(config ?? assert.fail('the config is valid'));
    const [early, late] = lab.nodes
      .map(({ name }) => shareOf(name, hash))
      .toSorted((one, other) => one - other);
    if (isIn(early) && isIn(late, LATE)) return { text, hash };
  }
  return assert.fail('no config sets the nodes apart');
}

/** Waits until packets of the node have the new verdict, which must be at its time. */
async function takesTurn(lab: Lab, { node, at }: Turn): Promise<void> {
  assert.deepEqual(await verdicts(lab, node), ['masqueraded'], 'before its time');
  await until(
    `the new verdict on ${node.name}`,
    () => verdicts(lab, node),
    (found) => found.join() === 'not masqueraded',
  );
  const late = Date.now() - at;
  lab.measured(`new verdict on ${node.name}, against the time that status told`, `${late} ms`);
  assert.ok(Math.abs(late) <= EXACT_MS, `${late} ms`);
}

/** The verdicts of new packets from the node to the other one. */
async function verdicts(lab: Lab, node: LabNode): Promise<readonly string[]> {
  const own = routes(lab, ['nodes']).filter(({ from }) => from.name === node.name);
  const seen = await node.client.ask('ask', { targets: own.map(({ target }) => target) });
  return [...new Set(own.map((route, index) => verdictOf(route, seen[index]?.source ?? '')))];
}
