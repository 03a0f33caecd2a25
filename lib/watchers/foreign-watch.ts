import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Host } from '../dataplane/host.ts';
import { type ForeignFinding, findForeign } from '../foreign/find.ts';
import { otherAgentFinding } from '../foreign/other-agents.ts';
import { readNode } from '../foreign/read-node.ts';
import type { Logger } from '../log/log.ts';
import { Notices } from '../log/notices.ts';
import { createIsLocal } from '../node/own-addresses.ts';
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
  readonly leftovers: Pick<Leftovers, 'returned' | 'removeOnce'>;
  /** The ids of authors of foreign rules that are no reason for a warning. */
  readonly accepted: readonly string[];
  readonly findPods: FindPods;
  readonly signal: AbortSignal;
}

export interface ForeignWatch {
  /** Whether the last reading is so long ago that foreign rules may have changed. */
  readonly isDue: boolean;
  /** Reads now, or after the current reading. */
  read(own: Own): void;
}

/**
 * Removes leftovers, and warns about foreign rules, once for each author as long as the rules stay, and about routes to
 * pods that the policies masquerade, once for each range. Syncs do not wait for it.
 */
export function createForeignWatch(options: ForeignWatchOptions): ForeignWatch {
  const { host, log, status, leftovers, accepted, findPods, signal } = options;
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
    const foreign = await foreignNotices(own).catch(failed);
    const pods = await podNotices(own.policies);
    notices.update(new Map([...left, ...foreign, ...pods]));
  }, log);

  /** Removes leftovers. If it fails, tries again after a pause. */
  const leftoverNotices = async (own: Own): Promise<NoticesByKey> => {
    clearTimeout(retryTimer);
    const failure = await leftovers.removeOnce(own.dataplane, own.policies);
    const found = new Map(otherAgents().map((finding) => [finding.key, () => logFinding(finding)]));
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

  const foreignNotices = async ({ dataplane, chain, policies }: Own): Promise<NoticesByKey> => {
    const families = policies.map(({ family }) => family);
    const node = await readNode(host, { families, ownChain: chain, iptables: dataplane.iptables });
    const isOwn = createIsLocal(host.netlink !== undefined);
    const { findings, unread } = await findForeign(node, policies, accepted, isOwn);
    status.onForeignRules([...otherAgents(), ...findings]);
    return new Map([
      ...findings.map((finding) => [finding.key, () => logFinding(finding)] as const),
      ...unread.map((what) => [what, () => log.info(`foreign rules not read: ${what}`)] as const),
    ]);
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

  const otherAgents = () => leftovers.returned.map((found) => otherAgentFinding(found, accepted));

  const logFinding = ({ family, message, evidence, remedy, isAccepted }: ForeignFinding): void => {
    const fields = { family, rules: evidence };
    if (isAccepted) log.info(fields, `${family}: ${message}; accepted by --accept-foreign`);
    else log.warn(fields, `${family}: ${message}; ${remedy}`);
  };

  const failed = (error: unknown): NoticesByKey => {
    const reason = failureText(error);
    return new Map([[reason, () => log.warn(`cannot read foreign rules: ${reason}`)]]);
  };

  return {
    read,
    get isDue() {
      return performance.now() - readAt >= READ_AGAIN_MS;
    },
  };
}

/** What there is to log, each with a key that stays the same as long as it is the same. */
type NoticesByKey = ReadonlyMap<string, () => void>;
