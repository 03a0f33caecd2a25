import { configHash } from '../config/config-hash.ts';
import { ageOf } from '../config/read.ts';
import type { KernelVerdicts } from '../dataplane/dataplane.ts';
import { describeKernelChange } from '../dataplane/kernel-verdicts.ts';
import type { Policy } from '../policy/policy.ts';
import { verdictsOf } from '../policy/verdicts.ts';
import { restoredConfig } from './reading.ts';
import { dueAt } from './rollout.ts';
import { clockTime, type ValidConfig } from './state.ts';
import { chooseDataplane, policiesOf, type Running } from './steps.ts';
import { all } from './sync.ts';

/**
 * The config that this round keeps in the kernel: the valid one or, until this node's time in the rollout window, the one in use.
 * Undefined if that is the config of an earlier run of which only the rules are known: they stay as they are.
 *
 * @throws {DataplaneError}
 */
export async function configInTurn(running: Running, valid: ValidConfig): Promise<ValidConfig | undefined> {
  const { options, agent, notices, trigger } = running;
  const { inUse, pending, invalid, readAt, verdictsBefore } = agent.state;
  if (options.rollout.windowMs === 0 || valid === inUse) return valid;
  if (invalid !== undefined && valid.earlier === undefined) {
    // The config files no longer say what was pending.
    agent.set({ pending: undefined });
    return inUse;
  }
  const hash = configHash(valid.config);
  const policies = policiesOf(options, valid);
  const verdicts = await verdictsNow(running);
  const changes = changesOf(verdicts, policies);
  const goesBack = verdictsBefore !== undefined && isSame(verdictsBefore, policies);
  const since = inUse === undefined ? readAt - ageOf(options.reader.configDir, valid.configFiles) : readAt;
  const at = dueAt(pending?.dueAt, { hash, changes, goesBack, since }, performance.now(), options.rollout);
  if (pending !== undefined && pending.hash !== hash)
    notices.log.info(`config ${pending.hash} is no longer pending: the config files have another config now`);
  if (at === undefined || trigger.reason === 'signal') {
    agent.set({ pending: undefined, ...(!isSame(verdicts, policies) && { verdictsBefore: verdicts }) });
    return valid;
  }
  if (pending?.hash !== hash)
    notices.log.info(
      { verdicts: changes.flatMap(({ lines }) => lines) },
      `config ${hash} is pending: this node applies it at ${clockTime(at)} (--rollout-window), or at SIGHUP; ${changes.map(({ family, summary }) => `${family}: ${summary}`).join('; ')}; to stop it, revert the ConfigMap`,
    );
  agent.set({ pending: { hash, dueAt: at } });
  return inUse ?? (pending === undefined ? await keptConfig(running, verdicts) : undefined);
}

/** The verdicts of the config in use or, at a start, those of the rules that the kernel holds. */
async function verdictsNow({ options, agent, notices }: Running): Promise<readonly KernelVerdicts[]> {
  const { inUse, policies } = agent.state;
  if (inUse !== undefined)
    return policies.map((policy) => ({ state: 'applied', ...verdictsOf(policy) }) as const);
  const dataplane = await chooseDataplane(options, agent, notices.log);
  const observed = await all(options.reader.config.families.map((one) => dataplane.observe(one)));
  agent.set({ lastRound: { endedAt: performance.now(), worked: 0, inSync: true } });
  return observed.map((one) => one.verdicts());
}

/** The config that an earlier run has kept, if the kernel holds its verdicts: then it is known what to repair. */
async function keptConfig({ options, notices }: Running, verdicts: readonly KernelVerdicts[]) {
  const earlier = await options.readKept();
  const kept = earlier && restoredConfig(earlier, options.reader.config, notices.log);
  return kept && isSame(verdicts, policiesOf(options, kept)) ? kept : undefined;
}

function changesOf(before: readonly KernelVerdicts[], policies: readonly Policy[]) {
  return policies.flatMap((policy) => {
    const verdicts = before.find(({ family }) => family === policy.family);
    return verdicts ? { family: policy.family, ...describeKernelChange(verdicts, policy) } : [];
  });
}

function isSame(before: readonly KernelVerdicts[], policies: readonly Policy[]): boolean {
  return changesOf(before, policies).every(({ lines }) => lines.length === 0);
}
