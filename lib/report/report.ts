import type { Family } from '../cidr/address.ts';
import type { MergedConfig } from '../config/config.ts';
import type { ConfigFile } from '../config/config-file.ts';
import type { Problem, Severity } from '../config/problem.ts';

/** What an agent of the manifests would read, by its own arguments. */
export interface AgentReport {
  /** Of its workload. */
  readonly name: string;
  /** Those of its arguments that decide about it. */
  readonly flags: readonly string[];
  /** Arguments that are known only in the cluster. */
  readonly unknown: readonly string[];
  readonly families: readonly Family[];
  readonly config: MergedConfig | undefined;
}

/** What `check` has found, whatever the format in which it is reported. */
export interface CheckReport {
  readonly problems: readonly Problem[];
  /** The merged config, of several agents that of the first; undefined if any problem is an error. */
  readonly config: MergedConfig | undefined;
  readonly configFiles: readonly ConfigFile[];
  /** Those that manifests start; none if the config files are checked by themselves. */
  readonly agents?: readonly AgentReport[];
  /** The manifests that problems may point into. */
  readonly manifests?: readonly ConfigFile[];
}

export function summarize(problems: readonly Problem[]) {
  const count = (wanted: Severity) => problems.filter(({ severity }) => severity === wanted).length;
  return { errors: count('error'), warnings: count('warning'), infos: count('info') };
}
