import { clockTime, type State } from '../agent/state.ts';
import { vanishedText } from '../config/config-file.ts';
import { configHash } from '../config/config-hash.ts';
import { formatProblem } from '../config/problem.ts';
import type { FlowCount } from '../policy/flow-counts.ts';
import type { Family } from '../policy/policy.ts';
import { printable } from '../text/escape.ts';
import { truncatedText } from '../text/words.ts';
import { readiness } from './health.ts';

/** What the agent says about itself at `/statusz` and to the command `status`: plain values. Times are ISO 8601. */
export interface AgentState extends Pick<Build, 'version' | 'commit'> {
  /** Null before it is found. */
  readonly dataplane: { readonly name: string; readonly reason: string } | null;
  /** The hash of the config in use; null before there is one. */
  readonly hash: string | null;
  /** The names of its config files: the first, if there are very many. */
  readonly configFiles: readonly string[];
  /** Those of them that are gone, and until when their last texts apply: if the config is invalid, until it is valid. */
  readonly vanished: readonly { readonly file: string; readonly until: string }[];
  /** The hash of a valid config that waits, and when the node applies it; null if none waits. */
  readonly pending: { readonly hash: string; readonly appliedAt: string } | null;
  /** The errors of the last reading of the config files; null if it was valid. */
  readonly invalid: { readonly message: string; readonly first: string; readonly since: string } | null;
  /** What stays in use while the config files have errors, or a config is pending: the last config, or the rules of an earlier run. */
  readonly keeps: 'config' | 'rules' | null;
  readonly syncs: readonly SyncTimes[];
  /** The flows against the policy at the last reading of connection tracking; null if there is none, or it failed. */
  readonly flows: { readonly at: string; readonly counts: readonly FlowCount[] } | null;
  /** Whether the rules were found in the kernel lately, and no other program changes them again and again. */
  readonly inSync: boolean;
  /** Why they are not in sync; empty if they are. */
  readonly reasons: readonly string[];
}

/** The syncs of one family; null for what has not happened since the agent started. */
interface SyncTimes {
  readonly family: Family;
  readonly last: string | null;
  readonly changed: string | null;
  /** How the kernel differed at the last change. */
  readonly found: readonly string[];
}

export interface Build {
  readonly version: string;
  readonly commit: string;
  readonly nodejs: string;
}

/** What does not change while the agent runs. */
export interface About {
  readonly build: Build;
  /** The families for which the agent keeps rules. */
  readonly families: readonly Family[];
  /** Milliseconds between two resyncs, if no config file says otherwise. */
  readonly resyncInterval: number;
}

/** Bounds the state: it is part of an answer on the socket of the lock, whose length is limited. */
const MOST_FILES = 100;
const LONGEST_PROBLEM = 2000;

export function agentState(state: State, { build, families, resyncInterval }: About): AgentState {
  const { dataplane, inUse, invalid, pending, flows } = state;
  const checks = readiness(state, families, resyncInterval, performance.now());
  const reasons = checks.filter(({ name, isGood }) => !isGood && name !== 'config');
  const [first] = invalid?.error.problems ?? [];
  return {
    version: build.version,
    commit: build.commit,
    dataplane: dataplane === undefined ? null : { name: dataplane.name, reason: dataplane.reason },
    hash: hashOf(state) ?? null,
    configFiles: (inUse?.config.configFileNames ?? []).slice(0, MOST_FILES),
    vanished: vanishedFiles(state),
    pending: pendingConfig(state),
    invalid:
      invalid === undefined
        ? null
        : {
            message: invalid.error.message,
            first: first === undefined ? '' : formatProblem(first).slice(0, LONGEST_PROBLEM),
            since: new Date(invalid.since).toISOString(),
          },
    keeps: (invalid ?? pending) === undefined ? null : inUse === undefined ? 'rules' : 'config',
    syncs: families.map((family) => {
      const { lastSync, lastChange, lastFound: found = [] } = state.families.get(family) ?? {};
      return { family, last: timeOrNull(lastSync), changed: timeOrNull(lastChange), found };
    }),
    flows: !flows || flows.isOutdated ? null : { at: time(flows.at), counts: flows.counts },
    inSync: reasons.length === 0,
    reasons: reasons.map(({ name, reason }) => `${name}: ${reason}`),
  };
}

/** The config files that are gone: the first, if there are very many. */
export function vanishedFiles({ vanished }: Pick<State, 'vanished'>): AgentState['vanished'] {
  const files = Array.from(vanished, ([file, at]) => ({ file, until: withoutFraction(clockTime(at)) }));
  return files.slice(0, MOST_FILES);
}

/** The hash of the config in use; undefined before there is one. */
export function hashOf({ inUse }: Pick<State, 'inUse'>): string | undefined {
  return inUse && configHash(inUse.config);
}

export function pendingConfig({ pending }: Pick<State, 'pending'>): AgentState['pending'] {
  return pending ? { hash: pending.hash, appliedAt: withoutFraction(clockTime(pending.dueAt)) } : null;
}

const SHOWN_FILES = 10;

/**
 * The state in lines, without what differs between equal nodes: the times of syncs, and the reason for the dataplane, which
 * is another after a restart.
 *
 * @param state that an agent has told, perhaps of another version: nothing in it may be trusted
 * @throws {TypeError} if it has not the form of a state
 */
export function stateLines(state: AgentState): readonly string[] {
  const { version, dataplane, hash, configFiles, vanished, pending, invalid, keeps, inSync, reasons } = state;
  const names = truncatedText(configFiles, SHOWN_FILES, String) || 'no config file: the defaults apply';
  const rules = inSync ? 'in sync' : `not in sync: ${reasons.join('; ')}`;
  const kept = keeps === 'config' ? '; the config that was applied last stays in use' : '';
  return [
    `ip-masq-agent ${version}: the rules are ${keeps === 'rules' ? 'those of an earlier run' : rules}`,
    `dataplane: ${dataplane?.name ?? 'not found yet'}`,
    `config: ${hash === null ? 'none that is valid yet' : `${hash} (${names})`}`,
    ...(pending ? [`config ${pending.hash} is pending until ${pending.appliedAt}`] : []),
    ...vanished.map(({ file, until }) => vanishedText(file, invalid === null ? until : undefined)),
    ...(invalid === null ? [] : [`invalid: ${invalid.message}, the first is ${invalid.first}${kept}`]),
  ].map(printable);
}

/** All lines: of the state, and then of what differs between equal nodes. @throws as `stateLines` does */
export function statusLines(state: AgentState): readonly string[] {
  const { dataplane, syncs } = state;
  const why = dataplane === null ? [] : [`why this dataplane: ${dataplane.reason}`];
  const lines = syncs.map(({ family, last, changed, found }) => {
    const change =
      changed === null ? 'no change yet' : `last change ${changed}, because of: ${found.join(', ')}`;
    return `${family}: last sync ${last ?? 'none yet'}, ${change}`;
  });
  return [...stateLines(state), ...[...why, ...lines].map(printable)];
}

/** A time of Date.now() in ISO 8601, without fractions of a second. */
function time(at: number): string {
  return withoutFraction(new Date(at).toISOString());
}

function withoutFraction(text: string): string {
  return text.replace(/\.\d+Z$/, 'Z');
}

function timeOrNull(at: number | undefined): string | null {
  return at === undefined ? null : time(at);
}
