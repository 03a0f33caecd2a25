/**
 * How Node is started for the agent. Together they take a third of the anonymous memory of an idle agent away, and two
 * fifths of what 100,000 CIDRs need at their peak; BENCH_BINARY lets test/bench compare another build.
 */
export const NODE_FLAGS: readonly string[] = [
  // The signal would open Node's debugger.
  '--disable-sigusr1',
  // For cmd/ip-masq-agent/settle.ts.
  '--expose-gc',
  // Young objects: MiB in each half of their space, which otherwise grows to 16 and stays so.
  '--max-semi-space-size=2',
  // Threads that help V8 with collecting and compiling: there is little of both, and each keeps memory of its own.
  '--v8-pool-size=0',
];

/** One heap of malloc(3) for all threads, instead of one for each. */
export const ENVIRONMENT: Readonly<Record<string, string>> = { MALLOC_ARENA_MAX: '1' };

/** Bytes that Linux reads of a program's first line; it cuts off the rest without a word (BINPRM_BUF_SIZE). */
const LONGEST_LINE = 255;

/**
 * The first line of a program that a node starts, without `#!`. More than one argument needs env(1), from coreutils 8.30
 * on.
 *
 * @throws {Error} where Linux would cut it off
 */
export function interpreterLine(node: string): string {
  const variables = Object.entries(ENVIRONMENT).map(([name, value]) => `${name}=${value}`);
  const line = ['/usr/bin/env -S', ...variables, `"${node}"`, ...NODE_FLAGS].join(' ');
  const tooMany = Buffer.byteLength(`#!${line}`) - LONGEST_LINE;
  if (tooMany > 0)
    throw new Error(
      `the path ${node} is ${tooMany} bytes too long: build in a directory with a shorter path`,
    );
  return line;
}
