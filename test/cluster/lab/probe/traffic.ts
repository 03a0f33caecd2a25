import { FAILED, type Run, type Tally, type Target } from './errands.ts';
import { ask } from './flow.ts';

/** Opens connections at a steady rate until it is stopped. */
export class Traffic {
  readonly name: string;
  readonly #streams: readonly Stream[];
  readonly #timer: NodeJS.Timeout;

  constructor(name: string, targets: readonly Target[], perSecond: number) {
    this.name = name;
    this.#streams = targets.map((target) => new Stream(target));
    this.#timer = setInterval(() => {
      for (const stream of this.#streams) stream.begin();
    }, 1000 / perSecond);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  tallies(): Promise<readonly Tally[]> {
    return Promise.all(this.#streams.map((stream) => stream.tally()));
  }
}

class Stream {
  readonly #target: Target;
  readonly #runs: { outcome: string; count: number; from: number; to: number }[] = [];
  #count = 0;
  /** Connections are written down in the order in which they began, however they end. */
  #written: Promise<void> = Promise.resolve();

  constructor(target: Target) {
    this.#target = target;
  }

  begin(): void {
    const at = performance.timeOrigin + performance.now();
    const ended = ask(this.#target).then(
      ({ source }) => source,
      (error: Error) => `${FAILED}${error.message}`,
    );
    const before = this.#written;
    this.#written = before.then(async () => this.#write(await ended, at));
  }

  async tally(): Promise<Tally> {
    await this.#written;
    const runs: readonly Run[] = this.#runs.map((run) => ({ ...run }));
    return { target: this.#target, count: this.#count, runs };
  }

  #write(outcome: string, at: number): void {
    this.#count += 1;
    const last = this.#runs.at(-1);
    if (last?.outcome === outcome) {
      last.count += 1;
      last.to = at;
    } else this.#runs.push({ outcome, count: 1, from: at, to: at });
  }
}
