import { FAMILIES } from '../cidr/address.ts';
import type { MergedConfig } from '../config/config.ts';
import { type Dataplane, ruleLocationName } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Logger } from '../log/log.ts';
import {
  areCompiledFor,
  compilePolicy,
  type Family,
  type OwnAddress,
  type Policy,
} from '../policy/policy.ts';
import { errorMessage } from '../text/error.ts';
import { logAddresses } from './log-addresses.ts';
import { logChange, logVanishedConfigFiles } from './log-changes.ts';
import { type FamilySync, familyAfter, outOfSyncAfter, verdictChanges } from './next-state.ts';
import { missing } from './out-of-sync.ts';
import { type ReaderOptions, readConfig, restoredConfig } from './reading.ts';
import { needsConfig, type Reasons, scheduleOf, type Trigger } from './reasons.ts';
import { type RetryableError, type RetryOptions, retrying } from './retry.ts';
import type { EarlierConfig, Knowledge, State, ValidConfig } from './state.ts';
import { Sync } from './sync.ts';

/** What the loop asks of the node. */
export interface AgentOptions {
  readonly reader: ReaderOptions;
  /** Milliseconds that a round may take: until then, what fails is tried again. */
  readonly syncTimeout: number;
  /** Watches the config directory, unless that is done. */
  readonly watchDirectory: () => void;
  /** The config that an earlier run has kept, if the node has no rules of a family; used until this run reads a valid one. */
  readonly readEarlier: (retry: RetryOptions) => Promise<EarlierConfig | undefined>;
  /** Decides about an invalid config: a clause that says what stays in use, or undefined to end the agent. */
  readonly keep: (valid: ValidConfig | undefined) => Promise<string | undefined>;
  /**
   * Takes the lock against a second agent, or decides to go on without it.
   *
   * @param deadline until when it waits for another agent to end, in milliseconds of performance.now()
   */
  readonly takeLock: (deadline: number) => Promise<NonNullable<State['lock']>>;
  /** The dataplane to use now: the same object as long as the node is the same. */
  readonly chooseDataplane: () => Promise<Dataplane>;
  /** The node's addresses now. Asked for only if a config needs them. */
  readonly ownAddresses: () => readonly OwnAddress[];
}

/** What the loop works with. */
interface Loop {
  readonly options: AgentOptions;
  readonly agent: Knowledge;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** What a round has done. */
export interface Round {
  readonly trigger: Trigger;
  /** Whether the config files were valid; undefined if they were not read. */
  readonly config: 'valid' | 'invalid' | undefined;
  /** Why attempts have failed. */
  readonly retries: readonly RetryableError['failure'][];
  /** What was done in each family; none if there is no valid config yet. */
  readonly syncs: readonly FamilySync[];
  /** Whether the kernel was found to hold all policies at the end. */
  readonly inSync: boolean;
  /** Why it cannot be told what the kernel holds, so that nothing was written. */
  readonly failure?: DataplaneError;
  /** Milliseconds from the trigger to the end. */
  readonly took: number;
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

/** A round, as its steps see it. */
interface Running extends Loop {
  readonly trigger: Trigger;
  /** How it waits for a busy kernel, until its deadline. */
  readonly retry: RetryOptions & { readonly deadline: number };
}

async function runRound(loop: Loop, trigger: Trigger): Promise<Round> {
  const retries: Round['retries'][number][] = [];
  const retry = retryOptions(loop, (failure) => retries.push(failure));
  const running = { ...loop, trigger, retry };
  // A round for a change of the node alone does not read the config files: one may be half written.
  const reads = needsConfig(trigger.reason);
  if (reads) await readOrKeep(running);
  const { valid, invalid } = loop.agent.state;
  const config = reads ? (invalid === undefined ? 'valid' : 'invalid') : undefined;
  await decideLock(running);
  const { families } = loop.options.reader.config;
  const synced = valid
    ? await sync(running, valid.config, families).catch((error) => keepRules(running, error))
    : NOT_SYNCED;
  return { trigger, config, retries, ...synced, took: performance.now() - trigger.since };
}

const NOT_SYNCED = { syncs: [], inSync: false } as const;

/** What another program has made of the kernel mostly passes: the next round, 2 s later, asks again. */
function keepRules({ agent, log }: Running, failure: unknown): Pick<Round, 'syncs' | 'inSync' | 'failure'> {
  if (!(failure instanceof DataplaneError) || failure.failure !== 'unreadable') throw failure;
  const why = `${failure.message}; the rules stay as they are; ${failure.remedy}`;
  if (agent.state.outOfSync.why !== why) log.error(why);
  const endedAt = performance.now();
  agent.set({
    round: { endedAt, duration: SHORTEST_MS, inSync: false },
    outOfSync: missing(agent.state.outOfSync, why, endedAt),
  });
  return { ...NOT_SYNCED, failure };
}

/** The pause after a round is ten times as long. */
const SHORTEST_MS = 200;

/** Reads the config files. Errors end the agent, unless a config or the rules of an earlier run are to be kept. */
async function readOrKeep(running: Running): Promise<void> {
  const { options, agent, log, retry } = running;
  options.watchDirectory();
  const before = agent.state.reading;
  agent.set(await retrying(() => readConfig(options.reader, agent.state, log), retry));
  const { invalid, reading } = agent.state;
  if (invalid === undefined) return;
  if (agent.state.valid === undefined) {
    const earlier = await options.readEarlier(retry);
    agent.set({ valid: earlier && restoredConfig(earlier, options.reader.config, log) });
  }
  const { valid } = agent.state;
  const kept = await options.keep(valid);
  if (kept === undefined) {
    if (valid?.earlier) invalid.error.consequence = await restore(running, valid.config, valid.earlier);
    throw invalid.error;
  }
  if (reading !== before) log.error(`${invalid.error.message}; ${kept}`);
}

/**
 * Writes the rules of the last valid config of an earlier run for the families of which the node has none: a reboot has taken them.
 *
 * @returns what the node has then, as a clause
 */
async function restore(
  running: Running,
  config: MergedConfig,
  { since, families }: EarlierConfig,
): Promise<string> {
  const had = `this node had no rules for ${families.join(' and ')}`;
  const those = `those of its last valid config, of ${since},`;
  try {
    await decideLock(running);
    const { inSync } = await sync(running, config, families);
    return inSync
      ? `${had}, and has ${those} now`
      : `${had}; ${those} were written, but another program has changed them since`;
  } catch (error) {
    // The config is why the agent ends.
    return `${had}, and ${those} cannot be written: ${errorMessage(error)}`;
  }
}

async function decideLock({ options, agent, retry }: Running): Promise<void> {
  if (agent.state.lock === undefined) agent.set({ lock: await options.takeLock(retry.deadline) });
}

/** Brings a config into the kernel: compiles it, observes, plans, applies, and observes again. */
async function sync(
  running: Running,
  config: MergedConfig,
  families: readonly Family[],
): Promise<Pick<Round, 'syncs' | 'inSync'>> {
  const { agent, log, trigger, retry } = running;
  const before = agent.state;
  const startedAt = performance.now();
  const attempts = new Sync({
    families: before.families,
    onApply({ family, script }) {
      agent.set({ outOfSync: missing(agent.state.outOfSync, REPAIR_GOES_ON, performance.now()) });
      log.trace({ family, transaction: script.split('\n') }, 'applying');
    },
  });
  const { policies, dataplane, generations } = await retrying(async () => {
    const policies = compile(running, config, families);
    const dataplane = await chooseDataplane(running);
    return { policies, dataplane, generations: await attempts.attempt(dataplane, policies) };
  }, retry);

  const [endedAt, inSync] = [performance.now(), generations !== undefined];
  const after = new Map(before.families);
  const syncs = policies.map((policy): FamilySync => {
    const { family } = policy;
    const change = attempts.changes.get(family);
    const verdicts = change && verdictChanges(change, policy, dataplane, before);
    const done = { family, found: change?.plan.found, verdicts, drifted: change?.drifted ?? false };
    const took = endedAt - trigger.since;
    if (change && verdicts) logChange(log, { ...change, verdicts, inSync, trigger, took });
    else log.debug({ family, reason: trigger.reason }, 'nothing to change');
    for (const text of attempts.undeletable.get(family) ?? []) log.warn({ family }, text);
    const applied = { policy, dataplane, generation: generations?.get(family) };
    after.set(family, familyAfter(after.get(family), applied, done, inSync, trigger));
    return done;
  });
  if (before.compiledFrom) logVanishedConfigFiles(log, before.compiledFrom, config, syncs);
  const round = { endedAt, duration: endedAt - startedAt, inSync };
  agent.set({ families: after, round, outOfSync: outOfSyncAfter(agent.state, round, syncs, trigger) });
  return { syncs, inSync };
}

const REPAIR_GOES_ON =
  "the kernel does not hold the agent's rules yet: the repair has not ended; find out what iptables-restore, or the kernel, waits for";

/** The policies of the config: the same objects, if no address of the node that it asks for has changed either. */
function compile(
  { options, agent, log }: Loop,
  config: MergedConfig,
  families: readonly Family[],
): readonly Policy[] {
  const { policies: before, compiledFrom } = agent.state;
  const own = config.masqueradeAddresses.length > 0 ? options.ownAddresses() : [];
  if (config === compiledFrom && areCompiledFor(own, before)) return before;
  const policies = families.map((family) => compilePolicy(config, family, own));
  logAddresses(log, before, policies);
  agent.set({ policies, compiledFrom: config });
  return policies;
}

async function chooseDataplane({ options, agent, log }: Loop): Promise<Dataplane> {
  const dataplane = await options.chooseDataplane();
  const { dataplane: before, cleared } = agent.state;
  if (dataplane === before) return dataplane;
  log.info(`using ${dataplane.name}: ${dataplane.reason}`);
  if (dataplane.warning !== undefined) log.warn(dataplane.warning);
  // What this process writes there from now on is its own.
  const own = FAMILIES.map((family) => ruleLocationName({ dataplane, family }));
  agent.set({ dataplane, cleared: new Set([...cleared].filter((name) => !own.includes(name))) });
  return dataplane;
}

function retryOptions(
  { options: { syncTimeout: timeoutMs }, agent, log, signal }: Loop,
  count: (failure: RetryableError['failure']) => void,
): Running['retry'] {
  return {
    timeoutMs,
    deadline: performance.now() + timeoutMs,
    signal,
    onRetry(error, attempt, waited) {
      log.warn({ attempt, failure: error.failure }, `trying again: ${error.message}`);
      count(error.failure);
      // The other one is of the config files, or of the node's addresses.
      if (!(error instanceof DataplaneError)) return;
      const why = `the agent cannot read or write its rules: ${error.message}`;
      agent.set({ outOfSync: missing(agent.state.outOfSync, why, performance.now() - waited) });
    },
  };
}
