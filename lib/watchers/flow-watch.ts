import type { PortRange } from '../dataplane/ports.ts';
import { PortCounter } from '../flows/ports-in-use.ts';
import { MOST_FLOWS, readFlows } from '../flows/read.ts';
import { keptVerdict, STALE_PROTOCOLS, StaleFlows } from '../flows/stale.ts';
import { IPPROTO } from '../flows/words.ts';
import type { Logger } from '../log/log.ts';
import { Notices } from '../log/notices.ts';
import { Conntrack, type Flow } from '../netlink/conntrack.ts';
import { NetlinkError } from '../netlink/error.ts';
import { collectGarbageSoon } from '../node/collect-garbage.ts';
import { createIsLocal } from '../node/own-addresses.ts';
import { type Family, type FlowVerdict, VERDICT_TEXT, type Verdict } from '../policy/policy.ts';
import type { Recorder } from '../status/recorder.ts';
import { counted } from '../text/words.ts';
import { failureText, oneAtATime } from './one-at-a-time.ts';

interface FlowWatchOptions {
  readonly mode: 'report' | 'delete-udp';
  readonly families: readonly Family[];
  /** An empty list means any port. */
  readonly toPorts: readonly PortRange[];
}

/** How often it reads without a reason: for ports in use, and for stale flows that have ended. */
const READ_AGAIN_MS = 600_000;

/** How often it tells of flows after repairs: if another program changes the rules all the time, there are several each second. */
const TELL_AGAIN_MS = 60_000;

/** What a reading is for, besides the metrics of stale flows. */
interface Asked {
  readonly mayDelete: boolean;
  readonly tells: boolean;
  readonly countsPorts: boolean;
}

type OpenConntrack = Pick<Conntrack, 'flowCount' | 'flows' | 'delete' | typeof Symbol.dispose>;

export interface FlowWatch {
  /**
   * Reads now, or after the current reading, because the kernel has these verdicts now.
   *
   * @param after what the sync did: without new rules it only counts, because nothing has become stale
   */
  read(verdict: FlowVerdict, after: 'change' | 'repair' | 'nothing'): void;
}

/**
 * Reads connection tracking for flows that keep an old verdict, and for ports that run out. Syncs do not wait for it,
 * and no failure of it gets to them.
 *
 * @param open opens connection tracking for one reading
 */
export function createFlowWatch(
  { mode, families, toPorts }: FlowWatchOptions,
  log: Logger,
  recorder: Recorder,
  open: () => OpenConntrack = () => new Conntrack(),
): FlowWatch {
  const notices = new Notices(log);
  let verdict: FlowVerdict = () => 'not_masqueraded';
  /** Whether the next reading may delete flows, and whether it tells of those that stay. */
  let [mayDelete, tells] = [false, false];
  let toldAt = Number.NEGATIVE_INFINITY;
  let countsPorts = true;
  let isOver = false;

  const readSoon = oneAtATime<void>(async () => {
    if (isOver) return;
    const asked = { mayDelete, tells, countsPorts };
    [mayDelete, tells] = [false, false];
    countsPorts = false;
    await readNow(asked).catch(fail);
    collectGarbageSoon();
  }, log);

  const readNow = async (asked: Asked) => {
    using conntrack = open();
    const rules = { verdict, isOwn: createIsLocal() };
    const [stale, deleted] = [new StaleFlows(), new StaleFlows()];
    const ports = asked.countsPorts ? new PortCounter(toPorts, rules.isOwn) : undefined;
    const deletes = asked.mayDelete && mode === 'delete-udp';
    const toDelete: { readonly flow: Flow; readonly kept: Verdict }[] = [];
    const take = (flow: Flow): void => {
      ports?.add(flow);
      const kept = keptVerdict(flow, rules);
      if (kept === undefined) return;
      if (deletes && flow.protocol === IPPROTO.udp) toDelete.push({ flow, kept });
      else stale.add(flow, kept);
    };
    const afterPart = (): void => {
      for (const { flow, kept } of toDelete.splice(0)) {
        try {
          if (conntrack.delete(flow)) deleted.add(flow, kept);
        } catch (error) {
          // Older kernels do not delete a flow that a device forwards by itself.
          if (!(error instanceof NetlinkError)) throw error;
          stale.add(flow, kept);
        }
      }
    };
    const family = families.length === 1 ? families[0] : undefined;
    try {
      if (!(await readFlows(conntrack, family, take, afterPart)))
        return skip(`conntrack holds more than ${MOST_FLOWS} flows: ${NOT_READ}`);
      notices.updateWarnings([]);
      record(stale, ports);
      if (asked.tells && stale.counts.length > 0) tell(stale);
    } finally {
      // Also of a table that was not read to its end.
      reportDeleted(deleted);
    }
  };

  /** @param ports undefined if they were not counted */
  const record = (stale: StaleFlows, ports: PortCounter | undefined): void => {
    recorder.record((metrics) => {
      for (const family of families) {
        for (const protocol of STALE_PROTOCOLS)
          for (const kept of ['not_masqueraded', 'masqueraded'] as const) {
            const flows = stale.count({ family, protocol, kept });
            metrics.set('stale_flows', { family, protocol, verdict: kept }, flows);
          }
        if (ports !== undefined) metrics.set('port_usage_ratio', { family }, ports.highestShare(family));
      }
    });
  };

  const tell = (stale: StaleFlows): void => {
    toldAt = performance.now();
    const hasUdp = stale.counts.some(({ protocol }) => protocol === 'udp');
    const remedy = hasUdp && mode === 'report' ? '; --stale-flows=delete-udp ends those of UDP' : '';
    log.info(
      { flows: stale.examples },
      `${sumText(stale)} began with: ${countsText(stale)}; each keeps it as long as it goes on, or a foreign rule decides about it${remedy}`,
    );
  };

  const reportDeleted = (deleted: StaleFlows): void => {
    if (deleted.counts.length > 0)
      log.info(
        { flows: deleted.examples },
        `deleted from conntrack, because they had the verdict that they began with: ${countsText(deleted)}; their next packets get the new one`,
      );
  };

  const fail = (error: unknown): void => {
    isOver = error instanceof NetlinkError && (error.failure === 'unsupported' || error.failure === 'denied');
    skip(`${NOT_READ}: ${failureText(error)}`);
  };

  /** The numbers of the last reading are not true of a table that is not read. */
  const skip = (why: string): void => {
    recorder.record((metrics) => {
      metrics.replace('stale_flows', []);
      metrics.replace('port_usage_ratio', []);
    });
    notices.updateWarnings([why]);
  };

  setInterval(() => {
    countsPorts = true;
    readSoon();
  }, READ_AGAIN_MS).unref();
  return {
    read(newVerdict, after) {
      verdict = newVerdict;
      mayDelete ||= after !== 'nothing';
      const isDue = performance.now() - toldAt >= TELL_AGAIN_MS;
      tells ||= after === 'change' || (after === 'repair' && isDue);
      readSoon();
    },
  };
}

const NOT_READ = 'stale flows and ports in use are not counted';

function sumText({ counts }: StaleFlows): string {
  const sum = counts.reduce((all, { flows }) => all + flows, 0);
  const [has, they] = sum === 1 ? ['has', 'it'] : ['have', 'they'];
  return `${counted(sum, 'connection')} still ${has} the verdict that ${they}`;
}

function countsText({ counts }: StaleFlows): string {
  return counts
    .map(({ family, protocol, kept, flows }) => {
      return `${flows} of ${protocol} (${family}, ${VERDICT_TEXT[kept]})`;
    })
    .join(', ');
}
