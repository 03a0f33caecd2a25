import { mergeConfigFiles } from '../config/load.ts';
import { formatProblem } from '../config/problem.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import {
  areCompiledFor,
  compilePolicy,
  type Family,
  type OwnAddress,
  type Policy,
} from '../policy/policy.ts';
import type { Running } from './options.ts';
import { retrying } from './retry.ts';
import type { ValidConfig } from './state.ts';

/** The policies of the config: the same objects, if no address of the node that it asks for has changed either. */
export function compile(
  { options, agent }: Running,
  valid: ValidConfig,
  families: readonly Family[],
): readonly Policy[] {
  const { policies: before, inUse } = agent.state;
  const own = addressesFor(options, valid);
  if (valid === inUse && areCompiledFor(own, before)) return before;
  const policies = families.map((family) => compilePolicy(valid.config, family, own));
  agent.set({ policies, inUse: valid });
  return policies;
}

/** The policies of a config that is perhaps never applied. */
export function policiesOf({ options }: Running, valid: ValidConfig): readonly Policy[] {
  const own = addressesFor(options, valid);
  return options.reader.config.families.map((family) => compilePolicy(valid.config, family, own));
}

/** The node's addresses now, if the config needs any. */
function addressesFor({ ownAddresses }: Running['options'], { config }: ValidConfig): readonly OwnAddress[] {
  return config.masqueradeAddresses.length > 0 ? ownAddresses() : [];
}

export async function chooseDataplane({ options, agent, notices: { log } }: Running): Promise<Dataplane> {
  const dataplane = await options.chooseDataplane();
  if (dataplane === agent.state.dataplane) return dataplane;
  log.info(`using ${dataplane.name}: ${dataplane.reason}`);
  if (dataplane.warning !== undefined) log.warn(dataplane.warning);
  agent.set({ dataplane });
  return dataplane;
}

/** The config that an earlier run has kept; undefined if there is none, or it is not valid with these flags. */
export async function keptConfig({ options, notices, retry }: Running): Promise<ValidConfig | undefined> {
  const kept = await retrying(options.readKept, retry);
  if (kept === undefined) return undefined;
  const { configFiles, since } = kept;
  const { config, ...merged } = mergeConfigFiles(configFiles, options.reader.config);
  if (config !== undefined)
    return { ...merged, config, configFiles, keptSince: since, readProblems: [], projected: false };
  const [first] = merged.problems;
  const text = first === undefined ? '' : formatProblem(first);
  notices.warn('last valid config', [
    `the last valid config, of ${since}, is not valid with these flags: ${text}`,
  ]);
  return undefined;
}
