import { failureText, oneAtATime } from '../agent/one-at-a-time.ts';
import { appliedPolicies, type Knowledge } from '../agent/state.ts';
import type { Prefix } from '../cidr/prefix.ts';
import type { PortRange } from '../dataplane/ports.ts';
import type { Notices } from '../log/notices.ts';
import { Conntrack, type Flow } from '../netlink/conntrack.ts';
import { NetlinkError } from '../netlink/error.ts';
import { collectGarbageSoon } from '../node/collect-garbage.ts';
import { createIsLocal, localKey } from '../node/own-addresses.ts';
import { podSources } from '../node/pod-routes.ts';
import { countsText, sumOf, type Treatment } from '../policy/flow-counts.ts';
import { flowPolicy } from '../policy/flow-policy.ts';
import type { Family } from '../policy/policy.ts';
import { counted } from '../text/words.ts';
import { FlowsAgainst, isCounted, treatmentAgainst } from './against.ts';
import { Baseline } from './baseline.ts';
import { PortCounter } from './ports-in-use.ts';
import { MOST_FLOWS, readFlows } from './read.ts';
import { IPPROTO } from './words.ts';

interface FlowWatchOptions {
  readonly mode: 'report' | 'delete-udp';
  readonly families: readonly Family[];
  /** An empty list means any port. */
  readonly toPorts: readonly PortRange[];
  /** Ranges of pods that the config, or another program, masquerades on purpose. */
  readonly accepted: readonly Prefix[];
}

/** How often it reads without a reason. */
const READ_AGAIN_MS = 300_000;

/** How often it tells of flows after repairs: if another program changes the rules all the time, there are several each second. */
const TELL_AGAIN_MS = 60_000;

/** What the next reading is for, besides the metrics. */
interface Asked {
  readonly mayDelete: boolean;
  readonly tells: boolean;
  readonly countsPorts: boolean;
}

const NOTHING_ASKED: Asked = { mayDelete: false, tells: false, countsPorts: false };

type OpenConntrack = Pick<Conntrack, 'flowCount' | 'flows' | 'delete' | typeof Symbol.dispose>;

/** What a reading needs of the node. */
interface NodeReaders {
  readonly open: () => OpenConntrack;
  readonly podSources: typeof podSources;
  readonly createIsLocal: typeof createIsLocal;
  readonly localKey: typeof localKey;
}

const NODE: NodeReaders = { open: () => new Conntrack(), podSources, createIsLocal, localKey };

/**
 * Reads connection tracking for flows against the policy, and for ports that run out. Rounds do not wait for it, and no failure
 * of it gets to them.
 */
export class FlowWatch {
  readonly #options: FlowWatchOptions;
  readonly #agent: Knowledge;
  readonly #notices: Notices;
  readonly #node: NodeReaders;
  readonly #baseline = new Baseline();
  readonly #readSoon: () => void;
  #asked: Asked = { ...NOTHING_ASKED, countsPorts: true };
  #toldAt = Number.NEGATIVE_INFINITY;
  #isOver = false;
  /** Whether the last reading has found flows that began since the last change. */
  #foundSince = false;
  #addresses: string | undefined;

  constructor(options: FlowWatchOptions, agent: Knowledge, notices: Notices, node = NODE) {
    [this.#options, this.#agent, this.#notices, this.#node] = [options, agent, notices, node];
    this.#readSoon = oneAtATime<void>(async () => {
      if (this.#isOver) return;
      const asked = this.#asked;
      this.#asked = NOTHING_ASKED;
      await this.#read(asked).catch((error: unknown) => this.#fail(error, asked));
      collectGarbageSoon();
    }, notices.log);
    setInterval(() => this.#ask({ ...NOTHING_ASKED, countsPorts: true }), READ_AGAIN_MS).unref();
  }

  /**
   * Reads now, or after the current reading and its pause, because the kernel has other rules now.
   *
   * @param after what the round did to verdicts: only new ones can have made flows stale
   */
  read(after: 'change' | 'repair' | 'nothing'): void {
    this.onChange();
    const isDue = performance.now() - this.#toldAt >= TELL_AGAIN_MS;
    const tells = after === 'change' || (after === 'repair' && isDue);
    this.#ask({ mayDelete: after !== 'nothing', tells, countsPorts: false });
  }

  /** Reads once more, because somebody asks for it. */
  readAgain(): void {
    this.#readSoon();
  }

  #ask(asked: Asked): void {
    this.#note(asked);
    this.#readSoon();
  }

  #note({ mayDelete, tells, countsPorts }: Asked): void {
    const before = this.#asked;
    this.#asked = {
      mayDelete: before.mayDelete || mayDelete,
      tells: before.tells || tells,
      countsPorts: before.countsPorts || countsPorts,
    };
  }

  /** Something else has changed how the kernel treats flows, or which of them count: flows of before are not accused. */
  onChange(): void {
    this.#baseline.onChange();
    const { flows } = this.#agent.state;
    this.#agent.set({ flows: flows && { ...flows, isOutdated: true } });
  }

  async #read(asked: Asked): Promise<void> {
    const { families, accepted, toPorts } = this.#options;
    using conntrack = this.#node.open();
    const now = this.#node.localKey();
    if (this.#addresses !== undefined && this.#addresses !== now) this.onChange();
    this.#addresses = now;
    const reading = this.#baseline.begin();
    const policy = flowPolicy(appliedPolicies(this.#agent.state));
    const isOwn = this.#node.createIsLocal();
    const ends = { isOwn, isPod: await this.#node.podSources(families, accepted) };
    const against = new FlowsAgainst();
    const ports = asked.countsPorts ? new PortCounter(toPorts, isOwn) : undefined;
    const stale = new StaleFlows(conntrack, against);
    const deletes = asked.mayDelete && this.#options.mode === 'delete-udp';
    let inZones = 0;
    const take = (flow: Flow): void => {
      ports?.add(flow);
      if (flow.zone !== 0 && isCounted(flow, ends)) inZones += 1;
      const treatment = treatmentAgainst(flow, policy, isOwn);
      if (treatment === undefined) return;
      const since = reading.beginning(flow.id);
      if (!isCounted(flow, ends)) return;
      const isOld = since === 'before' && treatment !== 'other_address';
      if (deletes && isOld && flow.protocol === IPPROTO.udp) stale.add(flow, treatment);
      else against.add(flow, treatment, since);
    };
    try {
      const family = families.length === 1 ? families[0] : undefined;
      if (!(await readFlows(conntrack, family, take, () => stale.delete())))
        return this.#skip(`conntrack holds more than ${MOST_FLOWS} flows: ${NOT_READ}`);
      // What could be deleted is deleted.
      if (!reading.isOverIn()) return this.#ask({ ...asked, mayDelete: false });
      this.#show(against, ports);
      if (asked.tells && against.counts('before').length > 0) this.#tell(against);
      this.#noteZones(inZones);
    } finally {
      // Also of a table that was not read to its end.
      if (stale.deleted.counts().length > 0)
        this.#notices.log.info(
          { flows: stale.deleted.examples() },
          `deleted from conntrack, because they still had the verdict from before the change: ${countsText(stale.deleted.counts())}; their next packets get the verdict of the config`,
        );
    }
  }

  /** The rules decide about them too, but perhaps in several zones, each with NAT of its own. */
  #noteZones(flows: number): void {
    const tell = () =>
      this.#notices.log.info(
        `${counted(flows, 'connection')} of pods in a zone of conntrack, as Open vSwitch uses them; the agent neither counts these as flows against the policy nor deletes them`,
      );
    this.#notices.update('zones of conntrack', new Map(flows > 0 ? [['some', tell]] : []));
  }

  #show(against: FlowsAgainst, ports: PortCounter | undefined): void {
    const counts = against.counts('after');
    // A flow that two readings find began since the last change, not just before it.
    const isSure = this.#foundSince && counts.length > 0;
    this.#foundSince = counts.length > 0;
    const text = `${countsText(counts)} against the config, begun since the agent's last change: another program decides about them; ip-masq-agent doctor names what else does NAT on this node`;
    const warn = () => this.#notices.log.warn({ flows: against.examples('after') }, text);
    this.#notices.update('flows', new Map(isSure ? [['since', warn]] : []));
    const usage =
      ports && this.#options.families.map((family) => [family, ports.highestShare(family)] as const);
    const portUsage = usage ? new Map(usage) : this.#agent.state.flows?.portUsage;
    this.#agent.set({
      flows: { at: Date.now(), counts: against.counts(), portUsage },
    });
  }

  #tell(against: FlowsAgainst): void {
    this.#toldAt = performance.now();
    const counts = against.counts('before');
    const flows = against.examples('before');
    const hasUdp = flows.some((text) => text.startsWith('udp '));
    const remedy =
      hasUdp && this.#options.mode === 'report' ? '; --stale-flows=delete-udp ends those of UDP' : '';
    const [they, keep] = sumOf(counts) === 1 ? ['it', 'keeps'] : ['they', 'keep'];
    this.#notices.log.info(
      { flows },
      `${countsText(counts)} against the config, because ${they} began before the change; ${they} ${keep} the old verdict until the end${remedy}`,
    );
  }

  #fail(error: unknown, asked: Asked): void {
    // The next reading does what this one has not done.
    this.#note(asked);
    this.#isOver =
      error instanceof NetlinkError && (error.failure === 'unsupported' || error.failure === 'denied');
    this.#skip(`${NOT_READ}: ${failureText(error)}`);
  }

  /** The numbers of the last reading are not true of a table that is not read. */
  #skip(why: string): void {
    this.#foundSince = false;
    this.#agent.set({ flows: undefined });
    this.#notices.warn('flows', [why]);
  }
}

/** Flows of UDP that are to be deleted, because they keep what they began with. */
class StaleFlows {
  readonly deleted = new FlowsAgainst();
  readonly #conntrack: OpenConntrack;
  readonly #against: FlowsAgainst;
  readonly #waiting: { readonly flow: Flow; readonly treatment: Treatment }[] = [];

  /** @param against takes those that stay */
  constructor(conntrack: OpenConntrack, against: FlowsAgainst) {
    [this.#conntrack, this.#against] = [conntrack, against];
  }

  add(flow: Flow, treatment: Treatment): void {
    this.#waiting.push({ flow, treatment });
  }

  delete(): void {
    for (const { flow, treatment } of this.#waiting.splice(0)) {
      try {
        if (this.#conntrack.delete(flow)) this.deleted.add(flow, treatment, 'before');
      } catch (error) {
        // Older kernels do not delete a flow that a device forwards by itself.
        if (!(error instanceof NetlinkError)) throw error;
        this.#against.add(flow, treatment, 'before');
      }
    }
  }
}

const NOT_READ = 'flows against the policy and ports in use are not counted';
