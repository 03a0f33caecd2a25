import { setImmediate } from 'node:timers/promises';
import type { Host } from '../dataplane/host.ts';
import { MOST_OF_CHAIN } from '../dataplane/iptables/list-chain.ts';
import type { IptablesMode } from '../dataplane/options.ts';
import type { MostRules } from '../netlink/nf-tables.ts';
import { collectGarbageAtWork } from '../node/collect-garbage.ts';

/**
 * What it may cost the agent, beside its work, to read the chains of a node, and again to find out which rules packets reach.
 * Other programs write as many as they like, and what the agent says about them is only advice.
 */
export const AGENT_LIMITS: Limits = { cpuMs: 300, chain: MOST_OF_CHAIN };
/** The same for a command, for which somebody waits: no more than 100,000 rules take. */
export const COMMAND_LIMITS: Limits = { cpuMs: 10_000 };

interface Limits {
  /** Milliseconds of CPU. */
  readonly cpuMs: number;
  /** Of one chain over netlink. */
  readonly chain?: MostRules;
}

/** Bytes that all tools of one reading print. What one prints is parsed at once: this much blocks this process for up to 100 ms. */
export const OUTPUT_BYTES = 4 * 1024 * 1024;

/** What is read of one set over netlink. */
export const MOST_ELEMENTS = 4_000;

/** Chains, and elements of sets, that one reading of a node keeps: some 5 MB. */
export const MOST_KEPT = 20_000;

/** Most chains to read of one base chain: in legacy mode each costs a process that loads the whole table. */
export const MOST_CHAINS: Readonly<Record<IptablesMode, number>> = { nft: 2_000, legacy: 32 };

/** How many values are worked on before other work of the process goes on. */
const AT_ONCE = 500;

/** To ask for the CPU time takes 3 µs. */
const BETWEEN_CHECKS = 16;
/** Rules, of which this many make some 2 MB of garbage. */
const BETWEEN_COLLECTIONS = 2_048;

/** How many foreign rules of one family that decide otherwise than the config are kept, with 7 KB each: more than a node has pods. */
export const MOST_FOUND = 300;
/** How many findings about them are reported. */
export const MOST_FINDINGS = 20;

/** More foreign rules than the limits allow. */
export class TooManyRules extends Error {
  /** @param limit which limit, in words */
  constructor(limit: string) {
    super(`there are too many foreign rules to analyse: more than ${limit}`);
  }
}

/** What it may still cost to read the foreign rules of a node once, or to analyse them. */
export class Budget {
  readonly limits: Limits;
  readonly #cpuNow: () => number;
  #cpuMs: number;
  #outputBytes = OUTPUT_BYTES;
  #started = 0;
  #checks = 0;
  #kept = 0;

  /** @param cpuNow the CPU time that this thread has used so far, in milliseconds */
  constructor(limits: Limits, cpuNow = threadCpuMs) {
    this.limits = limits;
    this.#cpuMs = limits.cpuMs;
    this.#cpuNow = cpuNow;
  }

  /**
   * Does a part of the work, after all else that waits in this process. It calls `check` in every loop.
   *
   * @throws {TooManyRules}
   */
  async work<Result>(part: () => Result | Promise<Result>): Promise<Result> {
    await setImmediate();
    this.#started = this.#cpuNow();
    this.check();
    try {
      return await part();
    } finally {
      this.#cpuMs -= this.#cpuNow() - this.#started;
    }
  }

  /**
   * Does the same with each of the values, 500 at a time.
   *
   * @throws {TooManyRules}
   */
  async each<Value>(values: readonly Value[], part: (value: Value) => void): Promise<void> {
    for (let start = 0; start < values.length; start += AT_ONCE) {
      await this.work(() => {
        for (const value of values.slice(start, start + AT_ONCE)) {
          this.check();
          part(value);
        }
      });
    }
  }

  /** @throws {TooManyRules} */
  check(): void {
    this.#checks += 1;
    if (this.#checks % BETWEEN_COLLECTIONS === 0) collectGarbageAtWork();
    if (this.#checks % BETWEEN_CHECKS !== 0) return;
    if (this.#cpuNow() - this.#started > this.#cpuMs)
      throw new TooManyRules(`${this.limits.cpuMs} ms of CPU time`);
  }

  /**
   * Takes note of chains and elements that are kept.
   *
   * @throws {TooManyRules}
   */
  keep(count: number): void {
    this.#kept += count;
    if (this.#kept > MOST_KEPT) throw new TooManyRules(`${MOST_KEPT} chains and elements of sets`);
  }

  /** The same host, but what its tools print counts: they throw TooManyRules beyond the limits. */
  limit(host: Host): Host {
    return {
      run: async (file, args, input) => {
        const result = await host.run(file, args, input);
        this.#outputBytes -= result.stdout.length;
        if (this.#outputBytes < 0) throw new TooManyRules(`${OUTPUT_BYTES} bytes`);
        return result;
      },
      readText: (path) => host.readText(path),
    };
  }
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
