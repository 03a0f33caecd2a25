import type { MergedConfig } from '../config/config.ts';
import type { ConfigFile } from '../config/config-file.ts';
import type { InvalidConfigError } from '../config/invalid-config.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import type { FlowCount } from '../policy/flow-counts.ts';
import type { Family, Policy } from '../policy/policy.ts';
import { CALM, type OutOfSync } from './out-of-sync.ts';

/**
 * What the agent knows: one value, which is replaced and never changed. The loop, and what runs beside it, replace its fields. Metrics, probes, pages and `status` are computed from it when they are asked for.
 *
 * A name that ends in `At` is a time in milliseconds of performance.now(), which does not change if the clock of the node is set.
 * `since` and `last…` are times of Date.now(), for people.
 */
export interface State extends ConfigState {
  /** Whether this process may change and remove the rules on the node: it has taken the lock, or has decided to go on without it. */
  readonly ownsRules: boolean;
  /** Whether netlink works; undefined before it is used. */
  readonly netlink: 'works' | 'fails' | undefined;
  /** Where the rules are kept; undefined before that is decided. */
  readonly dataplane: Dataplane | undefined;
  /** The policies of the families that the agent keeps; none before a config is in use. */
  readonly policies: readonly Policy[];
  /** The config that they are compiled from: what the loop brings into the kernel, and has perhaps not written yet. */
  readonly inUse: ValidConfig | undefined;
  /** The valid config, if it is not in use yet: it waits for this node's time in the rollout window. */
  readonly pending: { readonly hash: string; readonly dueAt: number } | undefined;
  /** The config that was in use before the last change of verdicts, if that did not go back itself; for the rollout window. */
  readonly configBefore: ValidConfig | undefined;
  /** What this process has written to the kernel, or found there, by family. */
  readonly families: ReadonlyMap<Family, FamilyState>;
  readonly lastRound: LastRound | undefined;
  /** For how long the kernel has not held the policies. */
  readonly outOfSync: OutOfSync;
  /** The config files that the state directory holds, as far as is known; undefined if there is no such directory. */
  readonly keptFiles: readonly ConfigFile[] | undefined;
  /** The last reading of connection tracking; undefined if there is none, or it has failed. */
  readonly flows: FlowsReading | undefined;
  /** Routes to pods that the policies masquerade, by family; undefined if they cannot be read. */
  readonly podRoutes: ReadonlyMap<Family, number> | undefined;
}

/** What the agent knows of the config files. */
export interface ConfigState {
  /** The last reading, valid or not; undefined before the first. */
  readonly reading: LoadedConfig | undefined;
  readonly readAt: number;
  /** The last valid config: of the last reading without errors, or of an earlier run of the agent; undefined if there is neither. */
  readonly valid: ValidConfig | undefined;
  /** The files of the valid config that are gone, and the times at which their last texts cease to apply. */
  readonly vanished: ReadonlyMap<string, number>;
  /** The errors of the last reading; undefined if it has none. */
  readonly invalid: InvalidConfig | undefined;
}

export interface ValidConfig extends LoadedConfig {
  readonly config: MergedConfig;
  /** When an earlier run has kept it, as in RFC 3339; absent if this run has read it. */
  readonly keptSince?: string;
}

export interface InvalidConfig {
  readonly error: InvalidConfigError;
  /** The first such reading after a valid one. */
  readonly since: number;
}

interface LastRound {
  readonly endedAt: number;
  /** Changes of the kernel and of the node's addresses wait until then. */
  readonly pauseEndsAt: number;
  /** Whether the kernel was found to hold all policies at the end; undefined if that was not compared, because no config is in use. */
  readonly inSync: boolean | undefined;
}

export interface FamilyState {
  /** The policy that this process has applied last, and where. */
  readonly policy: Policy;
  readonly dataplane: Dataplane;
  /** The generation of nf_tables in which the kernel held it; undefined if it did not, or the dataplane cannot tell. */
  readonly generation: number | undefined;
  /** When a round has ended with it in the kernel last; undefined before there is one. */
  readonly syncedAt: number | undefined;
  readonly lastSync: number | undefined;
  /** The last change of the rules, and how the kernel differed then. */
  readonly lastChange: number | undefined;
  readonly lastFound: readonly string[];
}

interface FlowsReading {
  /** As Date.now() says it. */
  readonly at: number;
  /** Connections that the kernel treats otherwise than the policy says. */
  readonly counts: readonly FlowCount[];
  /** The highest share of ports in use, by family, from 0 to 1; undefined if they were not counted. */
  readonly portUsage: ReadonlyMap<Family, number> | undefined;
  /** Whether rules or addresses have changed since. */
  readonly isOutdated?: boolean;
}

/** Milliseconds after the end of a grace. */
const SOON_MS = 100;

export const NO_CONFIG: ConfigState = {
  reading: undefined,
  readAt: Number.NEGATIVE_INFINITY,
  valid: undefined,
  vanished: new Map(),
  invalid: undefined,
};

const NOTHING: State = {
  ...NO_CONFIG,
  ownsRules: false,
  netlink: undefined,
  dataplane: undefined,
  policies: [],
  inUse: undefined,
  pending: undefined,
  configBefore: undefined,
  families: new Map(),
  lastRound: undefined,
  outOfSync: CALM,
  keptFiles: undefined,
  flows: undefined,
  podRoutes: undefined,
};

/** Holds the state of the loop, which is replaced and never changed. */
export class Knowledge {
  #state = NOTHING;

  get state(): State {
    return this.#state;
  }

  set(known: Partial<State>): void {
    this.#state = { ...this.#state, ...known };
  }
}

/** The policies that this process has applied last. Whether the kernel still holds them is not said. */
export function appliedPolicies({ families }: State): readonly Policy[] {
  return Array.from(families.values(), ({ policy }) => policy);
}

/** A time of performance.now() as the clock of the node says it now, which may have been set. As in RFC 3339. */
export function clockTime(at: number): string {
  return new Date(Date.now() + at - performance.now()).toISOString();
}

/** Milliseconds between two readings. */
export function intervalOf({ valid }: Pick<ConfigState, 'valid'>, resyncInterval: number): number {
  return valid?.config.resyncInterval?.value ?? resyncInterval;
}

/** When to read the config files again, if nothing changes. */
export function resyncAt(state: ConfigState, resyncInterval: number): number {
  const { readAt, vanished } = state;
  const ends = [...vanished.values()].filter((at) => at > readAt);
  return Math.min(readAt + intervalOf(state, resyncInterval), ...ends.map((at) => at + SOON_MS));
}
