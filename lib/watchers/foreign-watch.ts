import { type Dataplane, type RulesAtLocation, ruleLocationName } from '../dataplane/dataplane.ts';
import type { Host } from '../dataplane/host.ts';
import { isOfOlderAgent, OLDER_AGENT_REMEDY } from '../dataplane/iptables/chain.ts';
import { readSuspects } from '../foreign/read-suspects.ts';
import { suspectText } from '../foreign/suspects.ts';
import type { Logger } from '../log/log.ts';
import { Notices } from '../log/notices.ts';
import type { FindPods, MasqueradedPodRoutes } from '../policy/masqueraded-pod-routes.ts';
import type { Policy } from '../policy/policy.ts';
import type { StatusObserver } from '../status/observer.ts';
import type { Leftovers } from './leftovers.ts';
import { failureText, oneAtATime } from './one-at-a-time.ts';

interface Own {
  readonly dataplane: Dataplane;
  readonly chain: string;
  readonly policies: readonly Policy[];
}

/** The agent gets no event when foreign rules change, so it reads them again after this time. */
const READ_AGAIN_MS = 300_000;

/** The pauses after which a reading that could not remove leftovers is repeated: each is twice as long as the last. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 300_000;

/** The key of the notice that leftovers cannot be removed. */
const LEFTOVERS_KEY = 'leftovers';

interface ForeignWatchOptions {
  readonly host: Host;
  readonly log: Logger;
  readonly status: StatusObserver;
  readonly leftovers: Pick<Leftovers, 'returned' | 'removals' | 'removeOnce'>;
  readonly findPods: FindPods;
  /** Called when leftovers have been removed: packets may be treated otherwise since. */
  readonly onRemoval: () => void;
  readonly signal: AbortSignal;
}

export interface ForeignWatch {
  /** Reads now what else does NAT on the node, in words. */
  suspects(own: Own): Promise<readonly string[]>;
  /** Whether the last reading is so long ago that foreign rules may have changed. */
  readonly isDue: boolean;
  /** Reads now, or after the current reading. */
  read(own: Own): void;
}

/**
 * Removes leftovers, reads what else does NAT on the node, and warns about routes to pods that the policies masquerade, once for
 * each range. Syncs do not wait for it.
 */
export function createForeignWatch(options: ForeignWatchOptions): ForeignWatch {
  const { host, log, status, leftovers, findPods, onRemoval, signal } = options;
  const notices = new Notices(log);
  let readAt = -READ_AGAIN_MS;
  /** Starts the next attempt to remove leftovers. */
  let retryTimer: NodeJS.Timeout | undefined;
  let pause = FIRST_PAUSE_MS;

  const read = (own: Own): void => {
    readAt = performance.now();
    readSoon(own);
  };
  const readSoon = oneAtATime(async (own: Own) => {
    const left = await leftoverNotices(own).catch(failed);
    await suspects(own);
    const pods = await podNotices(own.policies);
    notices.update(new Map([...left, ...pods]));
  }, log);

  /** Removes leftovers. If it fails, tries again after a pause. */
  const leftoverNotices = async (own: Own): Promise<NoticesByKey> => {
    clearTimeout(retryTimer);
    const before = leftovers.removals;
    const failure = await leftovers.removeOnce(() => status.dataplane ?? own.dataplane, own.policies);
    if (leftovers.removals > before) onRemoval();
    const found = new Map(
      leftovers.returned.map((one) => [`others ${ruleLocationName(one)}`, () => logReturned(one)]),
    );
    if (failure !== undefined) {
      found.set(LEFTOVERS_KEY, () => log.warn(`${failure}; trying again until it succeeds`));
      retryTimer = setTimeout(() => read(own), pause).unref();
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    } else {
      // The signal ends a removal too.
      if (retryTimer !== undefined && !signal.aborted) log.info('no leftovers of an earlier run are left');
      retryTimer = undefined;
      pause = FIRST_PAUSE_MS;
    }
    return found;
  };

  const suspects = async ({ dataplane, chain, policies }: Own): Promise<readonly string[]> => {
    const families = policies.map(({ family }) => family);
    const found = await readSuspects(host, { families, ownChain: chain, iptables: dataplane.iptables });
    status.onSuspects(found);
    return [...found.suspects.map(suspectText), ...found.unread.map((what) => `not read: ${what}`)];
  };

  const podNotices = async (policies: readonly Policy[]): Promise<NoticesByKey> => {
    try {
      const pods = await findPods(policies, status.loaded?.config.configFileNames ?? []);
      status.onMasqueradedPodRoutes(pods);
      return new Map(pods.map((one) => [`pods in ${one.range.text}`, () => logPods(one)]));
    } catch (error) {
      status.onMasqueradedPodRoutes(undefined);
      const text = `routes to pods not read: ${failureText(error)}`;
      return new Map([[text, () => log.info(text)]]);
    }
  };

  const logPods = ({ family, message, evidence, remedy }: MasqueradedPodRoutes): void =>
    log.warn({ family, routes: evidence }, `${family}: ${message}; ${remedy}`);

  /** Rules that have come back after the agent has removed them: another agent keeps them. */
  const logReturned = ({ dataplane, family, rules }: RulesAtLocation): void => {
    const isOlder = isOfOlderAgent(rules);
    const who = isOlder ? 'ip-masq-agent v1 or v2' : 'another agent';
    log.warn(
      { family, rules },
      `${family}: rules that this agent removed from ${dataplane.name} are back, and stay: ${who} keeps a chain of the same name there; ${isOlder ? OLDER_AGENT_REMEDY : 'find the other agent, and remove it'}`,
    );
  };

  const failed = (error: unknown): NoticesByKey => {
    const reason = failureText(error);
    return new Map([[reason, () => log.warn(`cannot remove leftovers: ${reason}`)]]);
  };

  return {
    read,
    suspects,
    get isDue() {
      return performance.now() - readAt >= READ_AGAIN_MS;
    },
  };
}

/** What there is to log, each with a key that stays the same as long as it is the same. */
type NoticesByKey = ReadonlyMap<string, () => void>;
