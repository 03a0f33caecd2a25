import { formatRemark } from '../config/problem.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Family } from '../policy/policy.ts';
import { addressRemarks } from './address-remarks.ts';
import { logSync } from './log-changes.ts';
import { configInTurn, isInKernel } from './next-config.ts';
import { blockedText, familiesAfter, type Outcome, outOfSyncAfter, syncedFamily } from './next-state.ts';
import { failureText } from './one-at-a-time.ts';
import type { Loop, Running } from './options.ts';
import { foundOutOfSync } from './out-of-sync.ts';
import { readConfig } from './reading.ts';
import { pauseAfter, type Reasons, ROUND_REASONS, scheduleOf, type Trigger } from './reasons.ts';
import { type RetryableError, retrying } from './retry.ts';
import type { ValidConfig } from './state.ts';
import { chooseDataplane, compile, keptConfig } from './steps.ts';
import { trySync } from './sync.ts';

/** What a round has done. */
export interface Round extends Outcome {
  readonly trigger: Trigger;
  /** Why attempts have failed. */
  readonly retries: readonly RetryableError['failure'][];
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
  const { agent, notices } = loop;
  const retries: RetryableError['failure'][] = [];
  const running = { ...loop, trigger, retry: retryOf(loop, retries) };
  // A round for a change of the node alone does not read the config files: one may be half written.
  if (ROUND_REASONS[trigger.reason].readsConfig) await readConfigFiles(running);
  await takeLock(running);
  const startedAt = performance.now();
  const { valid } = agent.state;
  const outcome = valid ? await syncInTurn(running, valid).catch(ifBlocked) : NOTHING_DONE;
  const endedAt = performance.now();
  const { inSync, blocked } = outcome;
  const why = blocked ? [blockedText(blocked)] : [];
  // If the rules were not read back after they were written, the next round says whether another program blocks them.
  if (blocked || inSync !== false) notices.error('rules', why, 'no other program blocks the rules any more');
  agent.set({
    lastRound: { endedAt, pauseEndsAt: endedAt + pauseAfter(endedAt - startedAt, blocked), inSync },
    outOfSync: outOfSyncAfter(agent.state, outcome, trigger, endedAt),
  });
  return { trigger, retries, ...outcome, latency: performance.now() - trigger.since };
}

/**
 * How the steps of a round wait for a busy kernel, all until the same deadline.
 *
 * @param retries takes why attempts have failed
 */
function retryOf(loop: Loop, retries: RetryableError['failure'][]): Running['retry'] {
  const { options, agent, notices, signal } = loop;
  const { syncTimeout: timeoutMs } = options;
  const onRetry = (error: RetryableError, attempt: number, waited: number): void => {
    notices.log.warn({ attempt, failure: error.failure }, `trying again: ${error.message}`);
    retries.push(error.failure);
    // The other one is of the config files, or of the node's addresses.
    if (!(error instanceof DataplaneError)) return;
    const why = `the agent cannot read or write its rules: ${error.message}`;
    agent.set({ outOfSync: foundOutOfSync(agent.state.outOfSync, why, performance.now() - waited) });
  };
  return { timeoutMs, deadline: performance.now() + timeoutMs, signal, onRetry };
}

const NOTHING_DONE: Outcome = { syncs: [], inSync: undefined };

/**
 * How a round ends that another program's change of the kernel blocks. That mostly passes: the next round, 2 s later, asks again.
 *
 * @throws any other failure
 */
function ifBlocked(error: unknown): Outcome {
  if (!(error instanceof DataplaneError) || error.failure !== 'blocked') throw error;
  return { syncs: [], inSync: false, blocked: error };
}

async function takeLock({ options, agent, retry }: Running): Promise<void> {
  if (agent.state.ownsRules) return;
  await options.takeLock(retry.deadline);
  agent.set({ ownsRules: true });
}

/**
 * Reads the config files. If they are invalid, the last valid config stays in use. Before this run has read one, that is the one that an
 * earlier run has kept.
 *
 * @throws {InvalidConfigError} if an invalid config ends the agent
 */
async function readConfigFiles(running: Running): Promise<void> {
  const { options, agent, notices, retry } = running;
  options.watchDirectory();
  const before = agent.state;
  agent.set(await retrying(() => readConfig(options.reader, before, notices.log), retry));
  const { invalid, reading } = agent.state;
  if (invalid === undefined) return;
  const families = before.valid ? [] : await retrying(() => options.familiesWithoutRules(retry), retry);
  const kept = before.valid ? undefined : await usableKeptConfig(running, families);
  if (kept) agent.set({ valid: kept });
  if (!options.staysWhileInvalid) {
    if (kept && (await restoreRules(running, kept, families)))
      invalid.error.consequence = `this node had no rules for ${families.join(' and ')}, and now has those of its last valid config, of ${kept.keptSince}`;
    throw invalid.error;
  }
  // The same errors are told once.
  if (reading !== before.reading) notices.log.error(`${invalid.error.message}; ${await whatStays(running)}`);
}

/**
 * The config that an earlier run has kept, if it is known what the node needs: a family has no rules, as after a reboot; or, for an
 * agent that stays, the kernel still holds what that run has applied.
 */
async function usableKeptConfig(
  running: Running,
  withoutRules: readonly Family[],
): Promise<ValidConfig | undefined> {
  const { options, retry } = running;
  if (withoutRules.length === 0 && !options.staysWhileInvalid) return undefined;
  const kept = await keptConfig(running);
  if (kept === undefined || withoutRules.length > 0) return kept;
  return (await retrying(() => isInKernel(running, kept), retry)) ? kept : undefined;
}

/** What an invalid config that does not end the agent means, as a clause. */
async function whatStays({ options, agent }: Running): Promise<string> {
  const { valid, inUse } = agent.state;
  if (valid === undefined) return await options.effectOnNode();
  const until = 'until the config files are valid again';
  // In the rollout window, what this run has read was perhaps pending.
  if (!inUse && valid.keptSince === undefined) return `the rules of an earlier run stay ${until}`;
  const since = valid.keptSince === undefined ? '' : `, of ${valid.keptSince},`;
  return `the config that was applied last${since} stays in use ${until}`;
}

/** Writes the rules of families that have none; returns whether the kernel holds them. */
async function restoreRules(running: Running, kept: ValidConfig, families: readonly Family[]) {
  await takeLock(running);
  try {
    return (await sync(running, kept, families)).inSync;
  } catch (failure) {
    if (running.signal.aborted) throw failure;
    running.notices.log.error(`cannot write the rules of the last valid config: ${failureText(failure)}`);
    return false;
  }
}

/** Syncs the config whose turn it is. */
async function syncInTurn(running: Running, valid: ValidConfig): Promise<Outcome> {
  const config = await retrying(() => configInTurn(running, valid), running.retry);
  return config ? await sync(running, config, running.options.reader.config.families) : NOTHING_DONE;
}

/** Brings a config into the kernel: compiles it, observes, plans, applies, and observes again. */
async function sync(running: Running, config: ValidConfig, families: readonly Family[]): Promise<Outcome> {
  const { agent, notices, trigger, retry } = running;
  const before = agent.state;
  const onApply = (): void =>
    agent.set({ outOfSync: foundOutOfSync(agent.state.outOfSync, REPAIR_GOES_ON, performance.now()) });
  const attempts = { before: before.families, begun: new Map(), changes: new Map(), onApply };
  const { dataplane, ends } = await retrying(async () => {
    const policies = compile(running, config, families);
    notices.warn(
      'node addresses',
      addressRemarks(policies).map((one) => formatRemark(one)),
    );
    const dataplane = await chooseDataplane(running);
    return { dataplane, ends: await trySync(dataplane, policies, attempts) };
  }, retry);
  const syncs = ends.map((end) => syncedFamily(end, before.families));
  for (const one of syncs) logSync(notices.log, one, trigger);
  agent.set({ families: familiesAfter(before.families, syncs, dataplane) });
  return { syncs, inSync: ends.every(({ holds }) => holds) };
}

const REPAIR_GOES_ON =
  "the kernel does not hold the agent's rules yet: the repair has not ended; find out what iptables-restore, or the kernel, waits for";
