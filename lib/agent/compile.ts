import type { MergedConfig } from '../config/config.ts';
import type { Logger } from '../log/log.ts';
import { describePolicyChange } from '../policy/changes.ts';
import {
  areCompiledFor,
  compilePolicy,
  type Family,
  type OwnAddress,
  type Policy,
} from '../policy/policy.ts';
import { logAddresses } from './log-addresses.ts';
import { type ChangesByFamily, logVanishedConfigFiles } from './log-changes.ts';

export interface Compiled {
  readonly config: MergedConfig;
  readonly policies: readonly Policy[];
  /** What they do to packets that those before did not; undefined if they are not new, or the first ones. */
  readonly policyChanges: ChangesByFamily | undefined;
}

/** Compiles the merged config. The policies are the same objects if no address of the node that it asks for has changed either. */
export function compile(
  config: MergedConfig,
  last: Compiled | undefined,
  families: readonly Family[],
  ownAddresses: () => readonly OwnAddress[],
  log: Logger,
): Compiled {
  const before = last?.policies ?? [];
  const own = config.masqueradeAddresses.length > 0 ? ownAddresses() : [];
  if (config === last?.config && areCompiledFor(own, before)) return { ...last, policyChanges: undefined };
  const policies = families.map((family) => compilePolicy(config, family, own));
  logAddresses(log, before, policies);
  const policyChanges =
    last &&
    new Map(
      policies.map((one, index) => [one.family, describePolicyChange(before[index] ?? one, one)] as const),
    );
  if (last && policyChanges) logVanishedConfigFiles(log, last.config, config, policyChanges);
  return { config, policies, policyChanges };
}
