import { configHash } from '../config/config-hash.ts';
import { ageOf } from '../config/read.ts';
import { DataplaneError } from '../dataplane/error.ts';
import { describeKernelChange } from '../dataplane/kernel-verdicts.ts';
import { describePolicyChange, type VerdictChanges } from '../policy/changes.ts';
import type { Family, Policy } from '../policy/policy.ts';
import type { Running } from './options.ts';
import { dueAt } from './rollout.ts';
import { clockTime, type ValidConfig } from './state.ts';
import { chooseDataplane, keptConfig, policiesOf } from './steps.ts';
import { all } from './sync.ts';

/**
 * The config that this round keeps in the kernel: the valid one or, until this node's time in the rollout window, the one in use.
 * Undefined if that is the config of an earlier run of which only the rules are known: they stay as they are.
 *
 * @throws {DataplaneError}
 */
export async function configInTurn(running: Running, valid: ValidConfig): Promise<ValidConfig | undefined> {
  const { options, agent, notices, trigger } = running;
  const { inUse, pending, invalid, readAt } = agent.state;
  if (options.rollout.windowMs === 0 || valid === inUse) return valid;
  if (invalid !== undefined && valid.keptSince === undefined) return await configWhileInvalid(running, valid);
  const hash = configHash(valid.config);
  // Kept also if this round is blocked.
  if (trigger.reason === 'signal') agent.set({ pending: { hash, dueAt: performance.now() } });
  const policies = policiesOf(running, valid);
  const changesTo = await changesFromNow(running);
  const changes = changesTo(policies);
  const kept = inUse === undefined && pending === undefined ? await keptConfig(running) : undefined;
  const goesBack = wasApplied(running, kept, hash, policies);
  const since = inUse === undefined ? readAt - ageOf(options.reader.configDir, valid.configFiles) : readAt;
  const at = dueAt(
    agent.state.pending?.dueAt,
    { hash, changes, goesBack, since },
    performance.now(),
    options.rollout,
  );
  if (pending !== undefined && pending.hash !== hash)
    notices.log.info(`config ${pending.hash} is no longer pending: the config files have another config now`);
  if (at === undefined) {
    // What was left is perhaps the mistake: to come to it again is a change like any other.
    const before = changes.some(isChange) ? { configBefore: goesBack ? undefined : inUse } : {};
    agent.set({ pending: undefined, ...before });
    return valid;
  }
  if (pending?.hash !== hash)
    notices.log.info(
      { verdicts: changes.flatMap(({ lines }) => lines) },
      `config ${hash} is pending: this node applies it at ${clockTime(at)} (--rollout-window), or at SIGHUP; ${changes.map(({ family, summary }) => `${family}: ${summary}`).join('; ')}; to stop it, revert the ConfigMap`,
    );
  agent.set({ pending: { hash, dueAt: at } });
  if (inUse !== undefined || kept === undefined) return inUse;
  // If the kernel holds what the last run has applied, it is known what to repair.
  return changesTo(policiesOf(running, kept)).some(isChange) ? undefined : kept;
}

/** The config in use, if the config files no longer say what was pending. Without one, rules that go are written as the files last said. */
async function configWhileInvalid(running: Running, valid: ValidConfig): Promise<ValidConfig | undefined> {
  const { agent, notices } = running;
  const { inUse, pending } = agent.state;
  if (pending !== undefined)
    notices.log.info(`config ${pending.hash} is no longer pending: the config files have errors`);
  agent.set({ pending: undefined });
  if (inUse !== undefined) return inUse;
  const changesTo = await changesFromNow(running);
  return changesTo(policiesOf(running, valid)).some(({ hadNoEffect }) => hadNoEffect) ? valid : undefined;
}

/** Whether the kernel does with packets what a config says, at a start. That is unknown if another program blocks the rules. */
export async function isInKernel(running: Running, config: ValidConfig): Promise<boolean> {
  try {
    const changesTo = await changesFromNow(running);
    return !changesTo(policiesOf(running, config)).some(isChange);
  } catch (error) {
    if (error instanceof DataplaneError && error.failure === 'blocked') return false;
    throw error;
  }
}

/** Whether this node has had the verdicts of these policies before those in use, or keeps their config as the one it has applied last. */
function wasApplied(
  running: Running,
  kept: ValidConfig | undefined,
  hash: string,
  policies: readonly Policy[],
): boolean {
  // Then another program, or an address of the node that has changed, makes the difference.
  if (kept !== undefined && configHash(kept.config) === hash) return true;
  const { configBefore } = running.agent.state;
  if (configBefore === undefined) return false;
  return !changesBetween(policiesOf(running, configBefore), policies).some(isChange);
}

type Change = VerdictChanges & { readonly family: Family };

/**
 * Compares policies with the config in use or, at a start, with the rules that the kernel holds.
 *
 * @throws {DataplaneError} also if another program blocks the rules: what they do is unknown then
 */
async function changesFromNow(running: Running): Promise<(after: readonly Policy[]) => readonly Change[]> {
  const { inUse, policies: before } = running.agent.state;
  if (inUse !== undefined) return (after) => changesBetween(before, after);
  const dataplane = await chooseDataplane(running);
  const { families } = running.options.reader.config;
  const held = await all(families.map(async (family) => [family, await dataplane.observe(family)] as const));
  const observed = new Map(held);
  return (after) =>
    after.flatMap((policy) => {
      const { family } = policy;
      const rules = observed.get(family);
      // It throws if they are blocked.
      rules?.plan(policy);
      return rules ? [{ family, ...describeKernelChange(rules.verdicts(), policy) }] : [];
    });
}

function changesBetween(before: readonly Policy[], after: readonly Policy[]): readonly Change[] {
  return after.flatMap((policy) => {
    const { family } = policy;
    const last = before.find((one) => one.family === family);
    return last ? [{ family, ...describePolicyChange(last, policy) }] : [];
  });
}

function isChange({ lines, hadNoEffect }: VerdictChanges): boolean {
  return hadNoEffect === true || lines.length > 0;
}
