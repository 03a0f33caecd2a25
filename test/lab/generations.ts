import { fileURLToPath } from 'node:url';
import type { Box } from './box.ts';
import { readLines } from './lines.ts';

/** One transaction of nf_tables that the kernel has committed. */
interface Generation {
  /** When the kernel told of it, as `performance.now()` tells. */
  readonly at: number;
  /** The name of the process that asked for it. */
  readonly process: string;
}

/** The transactions that nf_tables commits in a box, one after the other; those of iptables-legacy are not among them. */
export interface Generations extends AsyncDisposable {
  /** The next one that has not been taken yet; waits for it. */
  next(): Promise<Generation>;
  /** Takes all that have come and have not been taken yet. */
  drain(): readonly Generation[];
}

const SCRIPT = fileURLToPath(new URL('generations.pl', import.meta.url));

/** Milliseconds from CLOCK_MONOTONIC, which `process.hrtime` shows, to `performance.now()`. */
const MONOTONIC_OFFSET = performance.now() - Number(process.hrtime.bigint()) / 1e6;

/** The same moment as `performance.now()` tells it, of seconds of CLOCK_MONOTONIC. */
function fromMonotonic(seconds: number): number {
  return seconds * 1000 + MONOTONIC_OFFSET;
}

/**
 * Listens to the kernel itself. `nft monitor` would read the whole ruleset before it tells anything, which on a node
 * with 75,000 rules that change takes for ever.
 */
export async function watchGenerations(box: Box): Promise<Generations> {
  const child = box.spawn('perl', [SCRIPT], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (child.stdout === null) throw new Error('a pipe was asked for');
  const lines = readLines(child.stdout, 'a transaction of nf_tables');
  await lines.next((text) => text === '');
  return {
    next: async () => parse((await lines.next(() => true)).text),
    drain: () => lines.drain().map(({ text }) => parse(text)),
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
    },
  };
}

function parse(line: string): Generation {
  const [seconds, process = ''] = line.split(' ');
  return { at: fromMonotonic(Number(seconds)), process };
}
