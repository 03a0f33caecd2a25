import { formatOrigin } from '../config/origin.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Logger } from '../log/log.ts';
import type { Policy } from '../policy/policy.ts';
import type { Status } from '../status/status.ts';
import type { ForeignRule } from './find.ts';
import { type ForeignFinding, type ForeignGroup, findForeignGroups } from './group.ts';

/** Entries that a sentence names one by one. */
const NAMED = 4;

/** Nothing tells when others change their rules: a metric of them is never older. */
const LOOK_AGAIN_MS = 300_000;

/** Rules of one author that are shown. */
const SHOWN = 3;

/** What rules of somebody else do to what the policy leaves alone, in a sentence. */
export function describeForeign(finding: ForeignFinding): string {
  const { entries } = finding;
  const names = entries
    .slice(0, NAMED)
    .map(({ prefix, origin }) => `${prefix.text} (${formatOrigin(origin)})`);
  const more = entries.length > NAMED ? ` and ${entries.length - NAMED} more` : '';
  return `${describeAuthor(finding)} may masquerade traffic to ${names.join(', ')}${more}, which the config leaves alone`;
}

/** Whose rules, and where: the beginning of a sentence. */
export function describeAuthor({ author, where, rules }: ForeignGroup): string {
  const who = author === 'unknown' ? 'somebody else' : author;
  return `${rules.length === 1 ? 'a rule' : `${rules.length} rules`} of ${who} in ${where}`;
}

/** The rules, those that lead to them, and what else must be so. */
export function foreignEvidence({ rules }: Pick<ForeignGroup, 'rules'>): readonly string[] {
  const more = rules.length > SHOWN ? [`… and ${rules.length - SHOWN} more`] : [];
  return [...rules.slice(0, SHOWN).flatMap(ruleEvidence), ...more];
}

function ruleEvidence({ path, conditions }: ForeignRule): readonly string[] {
  return [...path, ...(conditions.length === 0 ? [] : [`only where: ${conditions.join('; ')}`])];
}

/** Warns of foreign rules, of each author once as long as they stay. Looks beside the syncs, which do not wait for it. */
export class ForeignWatch {
  readonly #log: Logger;
  readonly #status: Status;
  #known = new Set<string>();
  #isLooking = false;
  #lookedAt = -LOOK_AGAIN_MS;
  #next: (() => Promise<void>) | undefined;

  constructor(log: Logger, status: Status) {
    this.#log = log;
    this.#status = status;
  }

  /** Whether it has not looked for so long that others may have changed what nothing here tells of. */
  isDue(now: number): boolean {
    return now - this.#lookedAt >= LOOK_AGAIN_MS;
  }

  /** Looks at the node soon: now, or when the look that is under way has ended. */
  look(dataplane: Dataplane, policies: readonly Policy[]): void {
    this.#lookedAt = performance.now();
    this.#next = () => this.#look(dataplane, policies);
    if (!this.#isLooking) void this.#lookOn();
  }

  async #lookOn(): Promise<void> {
    this.#isLooking = true;
    for (let next = this.#next; next !== undefined; next = this.#next) {
      this.#next = undefined;
      await next();
    }
    this.#isLooking = false;
  }

  /** That it cannot look is told once too, and is no reason to stop keeping the rules. */
  async #look(dataplane: Dataplane, policies: readonly Policy[]): Promise<void> {
    const found = new Map<string, () => void>();
    try {
      const families = policies.map(({ family }) => family);
      const rules = await dataplane.survey(families);
      const findings = policies.flatMap((policy) => findForeignGroups(rules, policy));
      this.#status.onSurvey(families, findings);
      for (const finding of findings) found.set(finding.key, () => this.#warn(finding));
      for (const what of rules.unread)
        found.set(what, () => this.#log.info(`not looked at for rules of others: ${what}`));
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
      const { message, remedy } = error;
      found.set(message, () => this.#log.warn(`cannot look for rules of others: ${message}; ${remedy}`));
    }
    for (const [key, tell] of found) if (!this.#known.has(key)) tell();
    this.#known = new Set(found.keys());
  }

  #warn(group: ForeignFinding): void {
    const { family, remedy } = group;
    const fields = { family, rules: foreignEvidence(group) };
    this.#log.warn(fields, `${family}: ${describeForeign(group)}; ${remedy}`);
  }
}
