import assert from 'node:assert/strict';
import { buildInfo } from '../../../cmd/ip-masq-agent/build-info.ts';
import { type FamilyState, Knowledge, type State } from '../../../lib/agent/state.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import type { Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { compilePolicy, type Policy } from '../../../lib/policy/policy.ts';
import { METRIC_PREFIX } from '../../../lib/status/metrics.ts';
import { Metrics } from '../../../lib/status/registry.ts';
import { loadedOf } from '../config/support.ts';

export const ABOUT = {
  build: buildInfo(),
  families: ['IPv4'],
  resyncInterval: 30_000,
} as const;

const DATAPLANE: Partial<Dataplane> = { name: 'fake', ruleCount: ({ entries }) => entries.length + 100 };

/** A family that is in sync with a policy. */
export function familyOf(policy: Policy, more: Partial<FamilyState> = {}): FamilyState {
  const dataplane = DATAPLANE as Dataplane;
  const times = { syncedAt: performance.now(), lastSync: Date.now(), lastChange: undefined };
  return { policy, dataplane, generation: 1, ...times, lastFound: [], ...more };
}

/** A state, with what it is to say besides nothing. */
export function stateOf(known: Partial<State> = {}): State {
  const agent = new Knowledge();
  agent.set(known);
  return agent.state;
}

/** The state after a config that was read and brought into the kernel, for IPv4. */
export function synced(config: MergedConfig, more: Partial<FamilyState> = {}): State {
  const valid = loadedOf(config, config.problems);
  const policy = compilePolicy(config, 'IPv4');
  return stateOf({ valid, reading: valid, families: new Map([['IPv4', familyOf(policy, more)]]) });
}

/** What metrics say. */
export function readerOf(metrics: Metrics) {
  const series = async (name: string): Promise<readonly string[]> => {
    const lines = (await metrics.text()).split('\n');
    return lines.filter((line) => new RegExp(`^${METRIC_PREFIX}${name}[{ ]`).test(line));
  };
  /** Of the only series with these labels; undefined if there is none. */
  const value = async (name: string, ...labels: readonly string[]): Promise<number | undefined> => {
    const found = (await series(name)).filter((line) => labels.every((label) => line.includes(label)));
    assert.ok(found.length <= 1, `several: ${found}`);
    return found[0] === undefined ? undefined : Number(found[0].split(' ').at(-1));
  };
  return { series, value };
}

/** What the metrics of a state say. */
export function factsOf(state: State) {
  const metrics = new Metrics();
  metrics.setGauges(state, ABOUT);
  return readerOf(metrics);
}
