/**
 * The flags with which Node.js runs the agent. Together with ENVIRONMENT they save a third of the anonymous memory of an
 * idle agent, and two fifths of the peak with 100,000 CIDRs. BENCH_BINARY lets test/bench compare another build.
 * None of them changes what V8 compiles: V8 would refuse all code that is compiled in advance, Node's own too.
 */
export const NODE_FLAGS: readonly string[] = [
  // Otherwise the signal opens Node's debugger.
  '--disable-sigusr1',
  // MiB in each half of the space for young objects, which otherwise grows to 16 and does not shrink.
  '--max-semi-space-size=2',
  // No threads that help V8 to collect and compile: there is little of both, and each thread uses memory.
  '--v8-pool-size=0',
];

/** One heap of malloc(3) for all threads, instead of one per thread. */
export const ENVIRONMENT: Readonly<Record<string, string>> = { MALLOC_ARENA_MAX: '1' };

/** Bytes that Linux reads of a program's first line. It silently cuts off the rest (BINPRM_BUF_SIZE). */
const LONGEST_LINE = 255;

/**
 * The first line of a program that Node.js runs, without `#!`. More than one argument needs env(1) of coreutils 8.30 or
 * newer.
 *
 * @throws {Error} if Linux would cut it off
 */
export function interpreterLine(node: string): string {
  const line = ['/usr/bin/env -S', assignments(ENVIRONMENT), `"${node}"`, ...NODE_FLAGS].join(' ');
  const tooMany = Buffer.byteLength(`#!${line}`) - LONGEST_LINE;
  if (tooMany > 0)
    throw new Error(
      `the path ${node} is ${tooMany} bytes too long: build in a directory with a shorter path`,
    );
  return line;
}

/**
 * A program for sh(1) that runs the agent with the Node.js beside it, in `../lib/ip-masq-agent` of its own directory. It works
 * from any directory, after a move, and through links.
 */
export function launcherScript(): string {
  return `#!/bin/sh
lib=$(dirname "$(readlink -f "$0")")/../lib/ip-masq-agent
${assignments(ENVIRONMENT)} exec "$lib/node" ${NODE_FLAGS.join(' ')} "$lib/ip-masq-agent" "$@"
`;
}

function assignments(environment: Readonly<Record<string, string>>): string {
  return Object.entries(environment)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}
