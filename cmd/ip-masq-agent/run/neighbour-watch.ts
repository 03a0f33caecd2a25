import type { Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { findForeign } from '../../../lib/neighbours/find.ts';
import { readNode } from '../../../lib/neighbours/read-node.ts';
import type { Policy } from '../../../lib/policy/policy.ts';
import type { Status } from '../../../lib/status/status.ts';

/** The agent's own dataplane, chain and policies. */
export interface Own {
  readonly dataplane: Dataplane;
  /** The name of the agent's chain. */
  readonly chain: string;
  readonly policies: readonly Policy[];
}

/** The agent gets no event when foreign rules change, so it looks again after this time. */
const LOOK_AGAIN_MS = 300_000;

/** Warns about foreign rules, once for each author as long as the rules stay. Syncs do not wait for it. */
export class NeighbourWatch {
  readonly #host: Host;
  readonly #log: Logger;
  readonly #status: Status;
  #known = new Set<string>();
  #isLooking = false;
  #lookedAt = -LOOK_AGAIN_MS;
  #next: Own | undefined;

  constructor(host: Host, log: Logger, status: Status) {
    this.#host = host;
    this.#log = log;
    this.#status = status;
  }

  /** Whether the last look is so long ago that foreign rules may have changed. */
  get isDue(): boolean {
    return performance.now() - this.#lookedAt >= LOOK_AGAIN_MS;
  }

  /** Looks at the node now, or after the current look. */
  look(own: Own): void {
    this.#lookedAt = performance.now();
    this.#next = own;
    if (!this.#isLooking) void this.#lookOn();
  }

  async #lookOn(): Promise<void> {
    this.#isLooking = true;
    for (let own = this.#next; own !== undefined; own = this.#next) {
      this.#next = undefined;
      await this.#look(own);
    }
    this.#isLooking = false;
  }

  /** Looks once. It is advice: no failure of it, not even a bug, gets to the syncs. */
  async #look(own: Own): Promise<void> {
    const found = await this.#notices(own).catch((error: unknown) => this.#failure(error));
    for (const [key, tell] of found) if (!this.#known.has(key)) tell();
    this.#known = new Set(found.keys());
  }

  /** What there is to log, each with a key that stays the same as long as it is the same. */
  async #notices({ dataplane, chain, policies }: Own): Promise<Notices> {
    const found = new Map<string, () => void>();
    const families = policies.map(({ family }) => family);
    const options = { families, ownChain: chain, iptables: dataplane.iptables };
    const node = await readNode(this.#host, options);
    const { findings, unread } = await findForeign(node, policies);
    this.#status.onNeighbours(families, findings);
    for (const { key, family, message, evidence, remedy } of findings)
      found.set(key, () => this.#log.warn({ family, rules: evidence }, `${family}: ${message}; ${remedy}`));
    for (const what of unread)
      found.set(what, () => this.#log.info(`not looked at for foreign rules: ${what}`));
    return found;
  }

  #failure(error: unknown): Notices {
    const reason =
      error instanceof DataplaneError ? `${error.message}; ${error.remedy}` : `bug: ${stackOf(error)}`;
    return new Map([[reason, () => this.#log.warn(`cannot look for foreign rules: ${reason}`)]]);
  }
}

type Notices = ReadonlyMap<string, () => void>;

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
