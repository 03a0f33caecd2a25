import type { Prefix } from '../cidr/prefix.ts';
import type { PortRange } from '../dataplane/ports.ts';
import {
  countsText,
  FlowsAgainst,
  isCounted,
  sumOf,
  type Treatment,
  treatmentAgainst,
} from '../flows/against.ts';
import { Baseline } from '../flows/baseline.ts';
import { PortCounter } from '../flows/ports-in-use.ts';
import { MOST_FLOWS, readFlows } from '../flows/read.ts';
import { IPPROTO } from '../flows/words.ts';
import type { Logger } from '../log/log.ts';
import { Notices } from '../log/notices.ts';
import { Conntrack, type Flow } from '../netlink/conntrack.ts';
import { NetlinkError } from '../netlink/error.ts';
import { collectGarbageSoon } from '../node/collect-garbage.ts';
import { createIsLocal, localKey } from '../node/own-addresses.ts';
import { podSources } from '../node/pod-routes.ts';
import type { Family, FlowPolicy } from '../policy/policy.ts';
import type { StatusObserver } from '../status/observer.ts';
import { failureText, oneAtATime } from './one-at-a-time.ts';

interface FlowWatchOptions {
  readonly mode: 'report' | 'delete-udp';
  readonly families: readonly Family[];
  /** An empty list means any port. */
  readonly toPorts: readonly PortRange[];
  /** Ranges of pods that the config, or another program, masquerades on purpose. */
  readonly accepted: readonly Prefix[];
  /** Reads what else does NAT on the node, in words. */
  readonly readSuspects: () => Promise<readonly string[]>;
}

/** How often it reads without a reason. */
const READ_AGAIN_MS = 300_000;

/** How often it tells of flows after repairs: if another program changes the rules all the time, there are several each second. */
const TELL_AGAIN_MS = 60_000;

/** What a reading is for, besides the metrics. */
interface Asked {
  readonly mayDelete: boolean;
  readonly tells: boolean;
  readonly countsPorts: boolean;
}

type OpenConntrack = Pick<Conntrack, 'flowCount' | 'flows' | 'delete' | typeof Symbol.dispose>;

/** What a reading needs of the node. */
interface NodeAccess {
  readonly open: () => OpenConntrack;
  readonly podSources: typeof podSources;
  readonly createIsLocal: typeof createIsLocal;
  readonly localKey: typeof localKey;
}

const NODE: NodeAccess = { open: () => new Conntrack(), podSources, createIsLocal, localKey };

export interface FlowWatch {
  /**
   * Reads now, or after the current reading, because the kernel has the rules of this policy now.
   *
   * @param after what the sync did to verdicts: only new ones can have made flows stale
   */
  read(policy: FlowPolicy, after: 'change' | 'repair' | 'nothing'): void;
  /** Reads once more, because somebody asks for it. */
  readAgain(): void;
  /** Something else has changed how the kernel treats flows, or which of them count: flows of before are not accused. */
  onChange(): void;
}

/**
 * Reads connection tracking for flows against the policy, and for ports that run out. Syncs do not wait for it, and no failure
 * of it gets to them.
 */
export function createFlowWatch(
  { mode, families, toPorts, accepted, readSuspects }: FlowWatchOptions,
  log: Logger,
  status: Pick<StatusObserver, 'forgetFlows' | 'onFlows'>,
  node: NodeAccess = NODE,
): FlowWatch {
  const notices = new Notices(log);
  const baseline = new Baseline();
  let policy: FlowPolicy | undefined;
  /** Whether the next reading may delete flows, and whether it tells of those that stay. */
  let [mayDelete, tells] = [false, false];
  let toldAt = Number.NEGATIVE_INFINITY;
  let countsPorts = true;
  let isOver = false;
  /** Whether the last reading has found flows that began since the last change. */
  let foundSince = false;
  let addresses: string | undefined;

  const onChange = (): void => {
    baseline.onChange();
    status.forgetFlows();
  };

  const readSoon = oneAtATime<void>(async () => {
    if (isOver || policy === undefined) return;
    const asked = { mayDelete, tells, countsPorts };
    [mayDelete, tells] = [false, false];
    countsPorts = false;
    await readNow(policy, asked).catch(fail);
    collectGarbageSoon();
  }, log);

  const readNow = async (current: FlowPolicy, asked: Asked) => {
    using conntrack = node.open();
    const now = node.localKey();
    if (addresses !== undefined && addresses !== now) onChange();
    addresses = now;
    const reading = baseline.begin();
    const ends = { isOwn: node.createIsLocal(), isPod: await node.podSources(families, accepted) };
    const [against, deleted] = [new FlowsAgainst(), new FlowsAgainst()];
    const ports = asked.countsPorts ? new PortCounter(toPorts, ends.isOwn) : undefined;
    const deletes = asked.mayDelete && mode === 'delete-udp';
    const toDelete: { readonly flow: Flow; readonly treatment: Treatment }[] = [];
    const take = (flow: Flow): void => {
      ports?.add(flow);
      const treatment = treatmentAgainst(flow, current, ends.isOwn);
      if (treatment === undefined) return;
      const since = reading.beginning(flow.id);
      if (!isCounted(flow, ends)) return;
      const isOld = since === 'before' && treatment !== 'other_address';
      if (deletes && isOld && flow.protocol === IPPROTO.udp) toDelete.push({ flow, treatment });
      else against.add(flow, treatment, since);
    };
    const afterPart = (): void => {
      for (const { flow, treatment } of toDelete.splice(0)) {
        try {
          if (conntrack.delete(flow)) deleted.add(flow, treatment, 'before');
        } catch (error) {
          // Older kernels do not delete a flow that a device forwards by itself.
          if (!(error instanceof NetlinkError)) throw error;
          against.add(flow, treatment, 'before');
        }
      }
    };
    const family = families.length === 1 ? families[0] : undefined;
    try {
      if (!(await readFlows(conntrack, family, take, afterPart)))
        return skip(`conntrack holds more than ${MOST_FLOWS} flows: ${NOT_READ}`);
      if (!reading.isOverIn()) return readSoon();
      notices.update(new Map(await noticesOf(against)));
      status.onFlows({ against, ports });
      if (asked.tells && against.counts('before').length > 0) tell(against);
    } finally {
      // Also of a table that was not read to its end.
      reportDeleted(deleted);
    }
  };

  /** A flow that two readings find began since the last change, not just before it. */
  const noticesOf = async (against: FlowsAgainst): Promise<readonly (readonly [string, () => void])[]> => {
    const counts = against.counts('after');
    const isSure = foundSince && counts.length > 0;
    foundSince = counts.length > 0;
    if (!isSure) return [];
    const fields = { flows: against.examples('after'), suspects: await readSuspects() };
    const text = `${countsText(counts)} against the config, begun since the agent's last change: another program decides about them; ip-masq-agent doctor names what else does NAT on this node`;
    return [[SINCE_KEY, () => log.warn(fields, text)]];
  };

  const tell = (against: FlowsAgainst): void => {
    toldAt = performance.now();
    const counts = against.counts('before');
    const flows = against.examples('before');
    const hasUdp = flows.some((text) => text.startsWith('udp '));
    const remedy = hasUdp && mode === 'report' ? '; --stale-flows=delete-udp ends those of UDP' : '';
    const [they, keep] = sumOf(counts) === 1 ? ['it', 'keeps'] : ['they', 'keep'];
    log.info(
      { flows },
      `${countsText(counts)} against the config, as ${they} began; ${they} ${keep} that to the end${remedy}`,
    );
  };

  const reportDeleted = (deleted: FlowsAgainst): void => {
    if (deleted.counts().length > 0)
      log.info(
        { flows: deleted.examples() },
        `deleted from conntrack, because they were treated as before the change: ${countsText(deleted.counts())}; their next packets are treated as the config says`,
      );
  };

  const fail = (error: unknown): void => {
    isOver = error instanceof NetlinkError && (error.failure === 'unsupported' || error.failure === 'denied');
    skip(`${NOT_READ}: ${failureText(error)}`);
  };

  /** The numbers of the last reading are not true of a table that is not read. */
  const skip = (why: string): void => {
    foundSince = false;
    status.onFlows(undefined);
    notices.updateWarnings([why]);
  };

  setInterval(() => {
    countsPorts = true;
    readSoon();
  }, READ_AGAIN_MS).unref();
  return {
    read(newPolicy, after) {
      policy = newPolicy;
      onChange();
      mayDelete ||= after !== 'nothing';
      const isDue = performance.now() - toldAt >= TELL_AGAIN_MS;
      tells ||= after === 'change' || (after === 'repair' && isDue);
      readSoon();
    },
    readAgain: readSoon,
    onChange,
  };
}

const SINCE_KEY = 'flows against the policy since the last change';
const NOT_READ = 'flows against the policy and ports in use are not counted';
