import type { Family } from '../cidr/address.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import type { Events, TableChange } from '../netlink/watch.ts';

/** From the first event to the sync: the changes of a burst lead to one. */
const BURST_MS = 50;

/** The pause after a sync is so many times as long: however many changes other programs make, the syncs take a small part of a core. */
const PAUSE_TIMES = 10;
const LONGEST_PAUSE_MS = 2_000;

/** Many programs may act before there is a sync: those of so many changes are named. */
const MOST_NAMED = 8;

/** The kernel tells so many characters of the name of a process. */
const NAME_LENGTH = 15;

/** A generation of nf_tables for each family. */
type Generations = ReadonlyMap<Family, number>;

/** A change of the rules of a family, and its generation of nf_tables. */
interface Change {
  readonly family: Family;
  readonly id: number;
  /** Undefined of one of many programs. */
  readonly program: string | undefined;
}

export interface SyncOutcome {
  /** Milliseconds that it has taken. */
  readonly duration: number;
  /** Whether the kernel holds the policy now. */
  readonly inSync: boolean;
  /** The generation of nf_tables in which it held the policy of each family; absent if it did not, or netlink does not tell it. */
  readonly generations: Generations;
}

/**
 * Changes of the agent's tables and chains that are not known yet, and when to sync. An event tells that something may have
 * changed, not what. What a sync has covered leads to no other sync.
 */
export class KernelEvents {
  /** The last change of each family by each program that is named, and by all others together. */
  readonly #changes = new Map<string, Change>();
  /** Whether to sync without an event, or after lost ones. */
  #isBlind = false;
  #since = 0;
  /** When the pause after the last sync ends. */
  #pauseEndsAt = 0;
  /** The generations that the last sync has covered. */
  #covered: Generations = new Map();
  #own: readonly string[] = [];

  /** Tells the tools of the agent from other programs. */
  setOwnTools(iptables: Dataplane['iptables']): void {
    this.#own = ownProcesses(iptables);
  }

  add({ items, lost }: Events<TableChange>): void {
    if (!this.isPending) this.#since = performance.now();
    this.#isBlind ||= lost;
    for (const { id, process: program, touched } of items)
      for (const { family } of touched) {
        const key = `${family} ${program}`;
        const isNamed = this.#changes.has(key) || this.#changes.size < MOST_NAMED;
        if (isNamed) this.#changes.set(key, { family, id, program });
        else this.#changes.set(family, { family, id, program: undefined });
      }
  }

  /** Whether there are changes that no sync has covered. */
  get isPending(): boolean {
    return this.#isBlind || this.#uncovered.length > 0;
  }

  /** When to sync, by performance.now(); undefined if there is no reason. */
  get syncDueAt(): number | undefined {
    return this.isPending ? Math.max(this.#since + BURST_MS, this.#pauseEndsAt) : undefined;
  }

  /** When the first change came, by performance.now(), and who has made them. Forgets them. */
  takeChanges(): { readonly since: number; readonly by: readonly string[] } {
    const names = [...new Set(this.#uncovered.flatMap(({ program }) => program ?? []))];
    const foreign = names.filter((name) => !this.#own.includes(name));
    this.#changes.clear();
    this.#isBlind = false;
    // Another program may have used the same tool as the agent.
    return { since: this.#since, by: foreign.length > 0 ? foreign : names };
  }

  /** Takes note of a sync, after which there is a pause. */
  onSync({ duration, inSync, generations }: SyncOutcome): void {
    this.#covered = generations;
    this.#pauseEndsAt = performance.now() + Math.min(PAUSE_TIMES * duration, LONGEST_PAUSE_MS);
    // Nobody may tell of the change that the sync has met.
    if (!inSync) this.add({ items: [], lost: true });
  }

  /** The changes that no sync has covered. */
  get #uncovered(): readonly Change[] {
    return [...this.#changes.values()].filter(({ family, id }) => {
      const covered = this.#covered.get(family);
      // Generations have 32 bits, and begin again at 0.
      return covered === undefined || ((id - covered) | 0) > 0;
    });
  }
}

/** The processes that the agent starts to write its rules, as the kernel names them. */
function ownProcesses(iptables: Dataplane['iptables']): readonly string[] {
  const tools = iptables && ['iptables', 'ip6tables'].map((tool) => `${tool}${iptables.suffix}-restore`);
  return (tools ?? []).map((tool) => tool.slice(0, NAME_LENGTH));
}
