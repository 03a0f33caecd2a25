import { setImmediate } from 'node:timers/promises';
import type { Host } from '../dataplane/host.ts';
import type { IptablesMode } from '../dataplane/options.ts';

/**
 * Milliseconds of CPU to read foreign rules, and to find out which of them packets reach. Other programs write as many as
 * they like, and what the agent says about them is only advice.
 */
export const READ_MS = 300;
export const ANALYSE_MS = 25;

/** Bytes that all tools of one reading print. */
export const OUTPUT_BYTES = 8 * 1024 * 1024;

/** Bytes that one tool prints, because it is parsed at once: 4 MiB block this process for up to 100 ms. */
export const ONE_OUTPUT_BYTES = 4 * 1024 * 1024;

/** What is read of one set over netlink. */
export const MOST_ELEMENTS = 4_000;

/** Rules and chains that one reading of a node takes over netlink. */
export const MOST_RULES = 20_000;

/** Most chains to read of one base chain: in legacy mode each costs a process that loads the whole table. */
export const MOST_CHAINS: Readonly<Record<IptablesMode, number>> = { nft: 2_000, legacy: 32 };

/** How many values are worked on before other work of the process goes on. */
const AT_ONCE = 500;

/** To ask for the CPU time takes 3 µs. */
const BETWEEN_CHECKS = 16;

/** How many findings about foreign rules are reported. */
export const MOST_FINDINGS = 20;

/** More foreign rules than the limits allow. */
export class TooManyRules extends Error {
  /** @param limit which limit, in words */
  constructor(limit: string) {
    super(`there are too many foreign rules to analyse: more than ${limit}`);
  }
}

/**
 * What it may still cost to read the foreign rules of a node once, or to analyse them: milliseconds of CPU, rules to read
 * and bytes that tools print.
 */
export class Budget {
  readonly #cpuNow: () => number;
  readonly #allMs: number;
  #cpuMs: number;
  #outputBytes = OUTPUT_BYTES;
  #started = 0;
  #rules = MOST_RULES;

  /** @param cpuNow the CPU time that this thread has used so far, in milliseconds */
  constructor(cpuMs: number, cpuNow = threadCpuMs) {
    this.#allMs = cpuMs;
    this.#cpuMs = cpuMs;
    this.#cpuNow = cpuNow;
  }

  /**
   * Does a part of the work, after all else that waits in this process. It calls `check` in every loop.
   *
   * @throws {TooManyRules}
   */
  async work<Result>(part: () => Result): Promise<Result> {
    await setImmediate();
    this.#started = this.#cpuNow();
    this.check();
    try {
      return part();
    } finally {
      this.#cpuMs -= this.#cpuNow() - this.#started;
    }
  }

  /**
   * Does the same with each of the values, 500 at a time.
   *
   * @throws {TooManyRules}
   */
  async map<Value, Result>(
    values: readonly Value[],
    part: (value: Value) => Result,
  ): Promise<readonly Result[]> {
    const results: Result[] = [];
    for (let start = 0; start < values.length; start += AT_ONCE) {
      await this.work(() => {
        for (const [index, value] of values.slice(start, start + AT_ONCE).entries()) {
          if (index % BETWEEN_CHECKS === 0) this.check();
          results.push(part(value));
        }
      });
    }
    return results;
  }

  /** @throws {TooManyRules} */
  check(): void {
    if (this.#cpuNow() - this.#started > this.#cpuMs) throw new TooManyRules(`${this.#allMs} ms of CPU time`);
  }

  /**
   * Takes note of what was read over netlink.
   *
   * @throws {TooManyRules}
   */
  count(rules: number): void {
    this.#rules -= rules;
    if (this.#rules < 0) throw new TooManyRules(`${MOST_RULES} rules`);
  }

  /** The same host, but what its tools print counts: they throw TooManyRules beyond the limits. */
  limit(host: Host): Host {
    return {
      run: async (file, args, input) => {
        const result = await host.run(file, args, input);
        this.#outputBytes -= result.stdout.length;
        if (result.stdout.length > ONE_OUTPUT_BYTES)
          throw new TooManyRules(`${ONE_OUTPUT_BYTES} bytes in a chain`);
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
