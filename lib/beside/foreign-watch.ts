import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Host } from '../dataplane/host.ts';
import { type ForeignFinding, findForeign } from '../foreign/find.ts';
import { othersFinding } from '../foreign/other-agents.ts';
import { readNode } from '../foreign/read-node.ts';
import type { Logger } from '../log/log.ts';
import { Notices } from '../log/notices.ts';
import type { FindPods, MasqueradedPods } from '../policy/masqueraded-pods.ts';
import type { Policy } from '../policy/policy.ts';
import type { Status } from '../status/status.ts';
import type { Leftovers } from './leftovers.ts';
import { failureText, oneAtATime } from './one-at-a-time.ts';

/** The agent's own dataplane, chain and policies. */
export interface Own {
  readonly dataplane: Dataplane;
  /** The name of the agent's chain. */
  readonly chain: string;
  readonly policies: readonly Policy[];
}

/** The agent gets no event when foreign rules change, so it looks again after this time. */
const LOOK_AGAIN_MS = 300_000;

/** The pauses after which a look that could not remove leftovers is repeated: each is twice as long as the last. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 300_000;

/** The key of the notice that leftovers cannot be removed. */
const LEFT = 'leftovers';

/**
 * Removes leftovers, and warns about foreign rules, once for each author as long as the rules stay, and about routes to
 * pods that the policies masquerade, once for each range. Syncs do not wait for it.
 */
export class ForeignWatch {
  readonly #host: Host;
  readonly #log: Logger;
  readonly #status: Status;
  readonly #leftovers: Pick<Leftovers, 'back' | 'look'>;
  readonly #accepted: readonly string[];
  readonly #findPods: FindPods;
  readonly #signal: AbortSignal;
  readonly #notices: Notices;
  readonly #lookSoon = oneAtATime((own: Own) => this.#lookNow(own));
  #lookedAt = -LOOK_AGAIN_MS;
  /** The next attempt to remove leftovers. */
  #again: NodeJS.Timeout | undefined;
  #pause = FIRST_PAUSE_MS;

  /** @param accepted the ids of authors of foreign rules that are no reason for a warning */
  constructor(
    host: Host,
    log: Logger,
    status: Status,
    leftovers: Pick<Leftovers, 'back' | 'look'>,
    accepted: readonly string[],
    findPods: FindPods,
    signal: AbortSignal,
  ) {
    this.#host = host;
    this.#log = log;
    this.#status = status;
    this.#leftovers = leftovers;
    this.#accepted = accepted;
    this.#findPods = findPods;
    this.#signal = signal;
    this.#notices = new Notices(log);
  }

  /** Whether the last look is so long ago that foreign rules may have changed. */
  get isDue(): boolean {
    return performance.now() - this.#lookedAt >= LOOK_AGAIN_MS;
  }

  /** Looks at the node now, or after the current look. */
  look(own: Own): void {
    this.#lookedAt = performance.now();
    this.#lookSoon(own);
  }

  async #lookNow(own: Own): Promise<void> {
    const failure = (error: unknown) => this.#failure(error);
    const left = await this.#leftoverNotices(own).catch(failure);
    const foreign = await this.#foreignNotices(own).catch(failure);
    const pods = await this.#podNotices(own.policies);
    this.#notices.tell(new Map([...left, ...foreign, ...pods]));
  }

  /** Removes leftovers, and what there is to log then. If it fails, looks again after a pause. */
  async #leftoverNotices(own: Own): Promise<Found> {
    const found = new Map<string, () => void>();
    clearTimeout(this.#again);
    const failure = await this.#leftovers.look(own.dataplane, own.policies);
    for (const finding of this.#others()) found.set(finding.key, () => this.#tell(finding));
    if (failure !== undefined) {
      found.set(LEFT, () => this.#log.warn(`${failure}; trying again until it succeeds`));
      this.#again = setTimeout(() => this.look(own), this.#pause).unref();
      this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE_MS);
    } else {
      // The signal ends a removal too.
      if (this.#again !== undefined && !this.#signal.aborted)
        this.#log.info('no leftovers of an earlier run are left');
      this.#again = undefined;
      this.#pause = FIRST_PAUSE_MS;
    }
    return found;
  }

  /** What there is to log about foreign rules. */
  async #foreignNotices({ dataplane, chain, policies }: Own): Promise<Found> {
    const found = new Map<string, () => void>();
    const families = policies.map(({ family }) => family);
    const options = { families, ownChain: chain, iptables: dataplane.iptables };
    const node = await readNode(this.#host, options);
    const { findings, unread } = await findForeign(node, policies, this.#accepted);
    this.#status.onNeighbours([...this.#others(), ...findings]);
    for (const finding of findings) found.set(finding.key, () => this.#tell(finding));
    for (const what of unread)
      found.set(what, () => this.#log.info(`not looked at for foreign rules: ${what}`));
    return found;
  }

  /** What there is to log about pods that the policies masquerade. */
  async #podNotices(policies: readonly Policy[]): Promise<Found> {
    try {
      const pods = await this.#findPods(policies, this.#status.loaded?.config.sources ?? []);
      this.#status.onMasqueradedPods(pods);
      return new Map(pods.map((one) => [`pods in ${one.range.text}`, () => this.#tellPods(one)]));
    } catch (error) {
      this.#status.onMasqueradedPods(undefined);
      const text = `not looked at for routes to pods: ${failureText(error)}`;
      return new Map([[text, () => this.#log.info(text)]]);
    }
  }

  #tellPods({ family, message, evidence, remedy }: MasqueradedPods): void {
    this.#log.warn({ family, routes: evidence }, `${family}: ${message}; ${remedy}`);
  }

  #others(): readonly ForeignFinding[] {
    return this.#leftovers.back.map((found) => othersFinding(found, this.#accepted));
  }

  #tell({ family, message, evidence, remedy, isAccepted }: ForeignFinding): void {
    const fields = { family, rules: evidence };
    if (isAccepted) this.#log.info(fields, `${family}: ${message}; accepted by --accept-foreign`);
    else this.#log.warn(fields, `${family}: ${message}; ${remedy}`);
  }

  #failure(error: unknown): Found {
    const reason = failureText(error);
    return new Map([[reason, () => this.#log.warn(`cannot look for foreign rules: ${reason}`)]]);
  }
}

/** What there is to log, each with a key that stays the same as long as it is the same. */
type Found = ReadonlyMap<string, () => void>;
