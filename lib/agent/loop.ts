import { formatRemark } from '../config/problem.ts';
import type { DataplaneError } from '../dataplane/error.ts';
import type { Family } from '../policy/policy.ts';
import { errorMessage } from '../text/error.ts';
import { addressRemarks } from './address-remarks.ts';
import { logChange } from './log-changes.ts';
import { configInTurn } from './next-config.ts';
import { type FamilySync, familyAfter, outOfSyncAfter, verdictChanges } from './next-state.ts';
import { missing } from './out-of-sync.ts';
import { readConfig, restoredConfig } from './reading.ts';
import { READS_CONFIG, type Reasons, scheduleOf, type Trigger } from './reasons.ts';
import { type RetryableError, retrying } from './retry.ts';
import type { EarlierConfig, InvalidConfig, ValidConfig } from './state.ts';
import { chooseDataplane, compile, type Loop, noteBlocked, type Running, retryOptions } from './steps.ts';
import { Attempts } from './sync.ts';

/** What a round has done. */
export interface Round {
  readonly trigger: Trigger;
  /** Why attempts have failed. */
  readonly retries: readonly RetryableError['failure'][];
  /** What was done in each family; none if there is no valid config yet. */
  readonly syncs: readonly FamilySync[];
  /** Whether the kernel was found to hold all policies at the end. */
  readonly inSync: boolean;
  /** Why what another program has done keeps the agent from writing. */
  readonly failure?: DataplaneError;
  /** Milliseconds from `trigger.since` to the end: pauses and waits included. */
  readonly latency: number;
}

/**
 * Runs a round whenever there is a reason, until the signal.
 *
 * @throws {InvalidConfigError | DataplaneError | SystemError} or an AbortError, if the signal ends a wait
 */
export async function* rounds(loop: Loop, reasons: Reasons): AsyncGenerator<Round, void> {
  const { options, agent, signal } = loop;
  for (;;) {
    const schedule = scheduleOf(agent.state, options.reader.resyncInterval);
    const trigger = await reasons.take(schedule, signal);
    if (trigger === undefined) return;
    yield await runRound(loop, trigger);
  }
}

async function runRound(loop: Loop, trigger: Trigger): Promise<Round> {
  const { options, agent } = loop;
  const retries: Round['retries'][number][] = [];
  const retry = retryOptions(options, agent, loop.notices.log, loop.signal, (failure) =>
    retries.push(failure),
  );
  const running = { ...loop, trigger, retry };
  // A round for a change of the node alone does not read the config files: one may be half written.
  if (READS_CONFIG[trigger.reason]) await readConfigFiles(running);
  if (!agent.state.ownsRules) {
    await options.takeLock(retry.deadline);
    agent.set({ ownsRules: true });
  }
  const { valid, invalid } = agent.state;
  if (invalid && valid?.earlier && !options.keepsInvalid) {
    await restoreRules(running, valid, valid.earlier, invalid);
    throw invalid.error;
  }
  const synced = valid
    ? await syncInTurn(running, valid).catch((error: unknown) => ({
        ...NOT_SYNCED,
        failure: noteBlocked(agent, loop.notices.log, error),
      }))
    : NOT_SYNCED;
  return { trigger, retries, ...synced, latency: performance.now() - trigger.since };
}

const NOT_SYNCED = { syncs: [], inSync: false } as const;

/** Reads the config files. Before this run has read a valid one, the config that an earlier run has kept may be in use. */
async function readConfigFiles({ options, agent, notices: { log }, retry }: Running): Promise<void> {
  options.watchDirectory();
  const before = agent.state.reading;
  agent.set(await retrying(() => readConfig(options.reader, agent.state, log), retry));
  const { invalid, reading } = agent.state;
  if (invalid === undefined) return;
  if (agent.state.valid === undefined) {
    const earlier = await retrying(() => options.readEarlier(retry), retry);
    agent.set({ valid: earlier && restoredConfig(earlier, options.reader.config, log) });
  }
  const { valid } = agent.state;
  if (!options.keepsInvalid && valid?.earlier === undefined) throw invalid.error;
  if (!options.keepsInvalid || reading === before) return;
  const since = valid?.earlier === undefined ? '' : `, of ${valid.earlier.since},`;
  const stays = `the last valid config${since} stays in use until it is valid again`;
  log.error(`${invalid.error.message}; ${valid === undefined ? await options.effectOnNode() : stays}`);
}

/** Syncs the config whose turn it is. */
async function syncInTurn(running: Running, valid: ValidConfig): Promise<Pick<Round, 'syncs' | 'inSync'>> {
  const config = await retrying(() => configInTurn(running, valid), running.retry);
  return config ? await sync(running, config, running.options.reader.config.families) : NOT_SYNCED;
}

/** Before an invalid config ends the agent, what a reboot has taken comes back: the rules of the last valid config. */
async function restoreRules(
  running: Running,
  valid: ValidConfig,
  { families, since }: EarlierConfig,
  { error }: InvalidConfig,
): Promise<void> {
  const { inSync } = await sync(running, valid, families).catch((failure: unknown) => {
    running.notices.log.error(`cannot write the rules of the last valid config: ${errorMessage(failure)}`);
    return NOT_SYNCED;
  });
  if (inSync)
    error.consequence = `this node had no rules for ${families.join(' and ')}, and now has those of its last valid config, of ${since}`;
}

/** Brings a config into the kernel: compiles it, observes, plans, applies, and observes again. */
async function sync(
  running: Running,
  config: ValidConfig,
  families: readonly Family[],
): Promise<Pick<Round, 'syncs' | 'inSync'>> {
  const { options, agent, notices, trigger, retry } = running;
  const { log } = notices;
  const before = agent.state;
  const startedAt = performance.now();
  const attempts = new Attempts({
    families: before.families,
    onApply() {
      agent.set({ outOfSync: missing(agent.state.outOfSync, REPAIR_GOES_ON, performance.now()) });
    },
  });
  const { policies, dataplane, generations } = await retrying(async () => {
    const policies = compile(options, agent, config, families);
    notices.warn(
      'node addresses',
      addressRemarks(policies).map((one) => formatRemark(one)),
    );
    const dataplane = await chooseDataplane(options, agent, log);
    return { policies, dataplane, generations: await attempts.attempt(dataplane, policies) };
  }, retry);

  const [endedAt, inSync] = [performance.now(), generations !== undefined];
  const after = new Map(before.families);
  const syncs = policies.map((policy): FamilySync => {
    const { family } = policy;
    const change = attempts.changes.get(family);
    const verdicts = change && verdictChanges(change, policy, dataplane, before);
    const done = { family, found: change?.plan.found, verdicts, drifted: change?.drifted ?? false };
    if (change && verdicts) logChange(log, { ...change, verdicts, inSync, trigger });
    else log.debug({ family, reason: trigger.reason }, 'nothing to change');
    for (const text of attempts.undeletable.get(family) ?? []) log.warn({ family }, text);
    const applied = { policy, dataplane, generation: generations?.get(family) };
    after.set(family, familyAfter(after.get(family), applied, done, inSync, trigger));
    return done;
  });
  const lastRound = { endedAt, worked: endedAt - startedAt, inSync };
  const outOfSync = outOfSyncAfter(agent.state, lastRound, syncs, trigger);
  agent.set({ families: after, lastRound, outOfSync });
  return { syncs, inSync };
}

const REPAIR_GOES_ON =
  "the kernel does not hold the agent's rules yet: the repair has not ended; find out what iptables-restore, or the kernel, waits for";
