import { describeRemoval, hasFailed, logRemoval, removeFromAll } from '../agent/remove.ts';
import { observeRuleLocations } from '../agent/rule-locations.ts';
import {
  type Dataplane,
  type RuleLocation,
  type RulesAtLocation,
  ruleLocationName,
} from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { listRuleLocations, possibleModes } from '../dataplane/open.ts';
import type { DataplaneOptions } from '../dataplane/options.ts';
import type { Logger } from '../log/log.ts';
import type { Policy } from '../policy/policy.ts';
import { adviceText } from '../text/advice.ts';

/** Milliseconds until a busy kernel fails an attempt. */
const ATTEMPT_MS = 1_000;

/**
 * Removes leftovers of an earlier run in another dataplane, mode or family: once in each of these locations. If rules come
 * back there, another agent keeps a chain of the same name, and to remove them again would never end.
 */
export class Leftovers {
  readonly #options: DataplaneOptions;
  readonly #host: Host;
  readonly #log: Logger;
  readonly #signal: AbortSignal;
  readonly #cleared: Set<string>;
  #returned: readonly RulesAtLocation[] = [];

  /** @param cleared gets the names of the locations in which this process has removed leftovers */
  constructor(options: DataplaneOptions, host: Host, log: Logger, signal: AbortSignal, cleared: Set<string>) {
    this.#options = options;
    this.#host = host;
    this.#log = log;
    this.#signal = signal;
    this.#cleared = cleared;
  }

  /** Rules that have returned after their removal, and so are another agent's. */
  get returned(): readonly RulesAtLocation[] {
    return this.#returned;
  }

  /** In how many locations this process has removed rules. */
  get removals(): number {
    return this.#cleared.size;
  }

  /**
   * Removes once what there is. Called only after the rules of this run are in the kernel, so that the node is never without rules.
   *
   * @param inUse the dataplane that is used at this moment, which may change meanwhile
   * @returns why it failed; undefined if nothing is left, or the signal has ended it
   */
  async removeOnce(inUse: () => Dataplane, policies: readonly Policy[]): Promise<string | undefined> {
    const failures: string[] = [];
    try {
      const kept = policies.map(({ family }) => family);
      const modes = await possibleModes(this.#options, this.#host);
      const all = await listRuleLocations(this.#options, this.#host, modes);
      const isUsed = ({ dataplane, family }: RuleLocation) =>
        dataplane.name === inUse().name && kept.includes(family);
      for (const location of all) if (isUsed(location)) this.#cleared.delete(ruleLocationName(location));
      const isKnown = (location: RuleLocation) => this.#cleared.has(ruleLocationName(location));
      const known = all.filter((location) => !isUsed(location) && isKnown(location));
      for (const location of all)
        if (!isUsed(location) && !isKnown(location)) failures.push(...(await this.#remove(location)));
      const states = await observeRuleLocations(known);
      const unreadable = states.find((one) => one.kind === 'unreadable');
      if (unreadable !== undefined) throw unreadable.error;
      this.#returned = states.filter((one) => one.kind === 'found');
    } catch (error) {
      // The signal ends a pause between two attempts with an AbortError.
      if (this.#signal.aborted) return undefined;
      if (!(error instanceof DataplaneError)) throw error;
      failures.push(adviceText(error));
    }
    if (failures.length === 0) return undefined;
    return `cannot remove leftovers of an earlier run in another dataplane, mode or family: ${failures.join('; ')}`;
  }

  /** Removes what is in a location; returns what failed. */
  async #remove(location: RuleLocation): Promise<readonly string[]> {
    const retry = { timeoutMs: ATTEMPT_MS, signal: this.#signal, onRetry: () => {} };
    const removals = await removeFromAll([location], retry);
    for (const removal of removals) {
      if (removal.rules === undefined) continue;
      this.#cleared.add(ruleLocationName(removal));
      logRemoval(this.#log, removal, 'left by an earlier run: ');
    }
    return removals.filter(hasFailed).map(describeRemoval);
  }
}
