import type { Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { findForeign } from '../../../lib/neighbours/group.ts';
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

  /** Looks once. A failure is logged once too, and does not stop the agent. */
  async #look({ dataplane, chain, policies }: Own): Promise<void> {
    const found = new Map<string, () => void>();
    try {
      const families = policies.map(({ family }) => family);
      const node = await readNode(this.#host, { families, ownChain: chain, iptables: dataplane.iptables });
      const findings = policies.flatMap((policy) => findForeign(node, policy));
      this.#status.onNeighbours(families, findings);
      for (const { key, family, message, evidence, remedy } of findings)
        found.set(key, () => this.#log.warn({ family, rules: evidence }, `${family}: ${message}; ${remedy}`));
      for (const what of node.unread)
        found.set(what, () => this.#log.info(`not looked at for foreign rules: ${what}`));
    } catch (error) {
      if (!(error instanceof DataplaneError)) throw error;
      const { message, remedy } = error;
      found.set(message, () => this.#log.warn(`cannot look for foreign rules: ${message}; ${remedy}`));
    }
    for (const [key, warn] of found) if (!this.#known.has(key)) warn();
    this.#known = new Set(found.keys());
  }
}
