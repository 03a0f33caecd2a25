import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { errorCode, errorMessage, isExhausted } from '../text/error.ts';
import { DataplaneError } from './error.ts';
import type { Netlink } from './netlink.ts';
import { killTool, running } from './running.ts';

/** The machine, as a dataplane uses it: it runs tools, reads files, and asks nf_tables over netlink. */
export interface Host {
  /**
   * Runs a tool without a shell and waits for its end. An exit code other than 0 is not an error here.
   *
   * @param mostBytes a tool that prints more is killed, and what it has printed until then is the result; without it, an error
   * @throws {DataplaneError} `missing` if there is no such tool, `exhausted` if it cannot be started or is killed, `refused` if it does not
   * end in time
   */
  run(file: string, args: readonly string[], input?: string, mostBytes?: number): Promise<ToolResult>;
  /** The text of a file; empty if there is no such file, undefined if it may not be read. */
  readText(path: string): Promise<string | undefined>;
  /** Asks nf_tables directly; absent if only tools are to be used. */
  readonly netlink?: Netlink;
}

export interface ToolResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Whether it has printed more than `mostBytes`. */
  readonly isCut?: boolean;
}

/** The directories of the tools if PATH is not set. */
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** The most that a tool may print. nft lists 100,000 elements with their counters in 5 MiB. */
const MAX_OUTPUT_BYTES = 32 * 1024 * 1024;

/** The machine that the agent runs on. A tool that runs longer than `timeoutMs`, or prints too much, is killed. */
export function systemHost(timeoutMs: number, netlink?: Netlink): Host {
  const env = toolEnvironment();
  return {
    ...(netlink && { netlink }),
    run: (file, args, input, mostBytes) => runTool(timeoutMs, env, file, args, input, mostBytes),
    async readText(path) {
      try {
        return readFileSync(path, 'utf8');
      } catch (error) {
        return errorCode(error) === 'ENOENT' ? '' : undefined;
      }
    },
  };
}

/** Runs a tool in a process group of its own. `running` knows it until it has ended. */
async function runTool(
  timeoutMs: number,
  env: Readonly<Record<string, string>>,
  ...[file, args, input, mostBytes]: Parameters<Host['run']>
): Promise<ToolResult> {
  const { promise: result, resolve, reject } = Promise.withResolvers<ToolResult>();
  const child = startTool(env, file, args, input);
  running.add(child.pid);
  const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []];
  const printed = () => ({
    stdout: Buffer.concat(stdout).toString(),
    stderr: Buffer.concat(stderr).toString(),
  });
  let length = 0;
  const collect = (chunks: Buffer[]) => (chunk: Buffer) => {
    length += chunk.length;
    if (length <= (mostBytes ?? MAX_OUTPUT_BYTES)) chunks.push(chunk);
    else if (mostBytes !== undefined) resolve({ code: 0, ...printed(), isCut: true });
    else reject(refused(`${file} prints more than 32 MiB`, 'run it by hand on the node: is it a wrapper?'));
  };
  // Without a free file descriptor there are no pipes, and an error event follows.
  child.stdout?.on('data', collect(stdout));
  child.stderr?.on('data', collect(stderr));
  child.on('error', (error) => reject(spawnError(file, error)));
  child.on('close', (code, signal) => {
    running.delete(child.pid);
    if (code === null) reject(endedBySignal(file, signal));
    else resolve({ code, ...printed() });
  });
  // A tool that ends before it has read all input says why on standard error.
  child.stdin?.on('error', () => {});
  child.stdin?.end(input);
  const cancel = afterRunning(timeoutMs, () => {
    const remedy = 'find out what it waits for on the node, or raise --sync-timeout';
    reject(refused(`${file} did not end within ${timeoutMs} ms`, remedy));
  });
  try {
    return await result;
  } finally {
    cancel();
    killTool(child.pid);
    // A process that has left the group may keep the output open.
    child.stdout?.destroy();
    child.stderr?.destroy();
  }
}

/** Node.js reports some errors as events, and throws others, such as too many open files. */
function startTool(
  env: Readonly<Record<string, string>>,
  file: string,
  args: readonly string[],
  input: string | undefined,
): ChildProcess {
  // Without input, one pipe less at every observation.
  const stdin = input === undefined ? 'ignore' : 'pipe';
  try {
    return spawn(file, args, { env, detached: true, stdio: [stdin, 'pipe', 'pipe'] });
  } catch (error) {
    throw spawnError(file, error);
  }
}

function refused(message: string, remedy: string): DataplaneError {
  return new DataplaneError('refused', message, remedy);
}

/** It says nothing about what the tool was asked. */
function endedBySignal(file: string, signal: string | null): DataplaneError {
  const remedy = 'look for a lack of memory: dmesg';
  return new DataplaneError('exhausted', `${file} was ended by ${signal}`, remedy);
}

/** A timer that is so late shows that this process was stopped, or got no CPU. */
const LATE_MS = 1_000;

/**
 * Calls back after so many milliseconds. If this process did not run in the meantime, it starts again: what it waits for
 * may have happened long ago.
 *
 * @returns cancels it
 */
function afterRunning(ms: number, callback: () => void): () => void {
  let timer: NodeJS.Timeout;
  const start = (): void => {
    const due = performance.now() + ms;
    timer = setTimeout(() => (performance.now() - due > LATE_MS ? start() : callback()), ms);
  };
  start();
  return () => clearTimeout(timer);
}

/** The environment that the tools need: messages in English, and the XTABLES_* variables of iptables(8). */
function toolEnvironment(): Readonly<Record<string, string>> {
  // Tools are looked for in that of this process.
  process.env['PATH'] ||= SYSTEM_PATH;
  const kept = Object.entries(process.env).filter(([name]) => name === 'PATH' || name.startsWith('XTABLES_'));
  return { ...(Object.fromEntries(kept) as Record<string, string>), LC_ALL: 'C' };
}

function spawnError(file: string, error: unknown): DataplaneError {
  // Node opens it for a tool without input, and says the same then.
  if (errorCode(error) === 'ENOENT' && existsSync('/dev/null')) {
    return new DataplaneError(
      'missing',
      `${file} is not installed`,
      'install it, or use an image that has it',
    );
  }
  const reason = errorMessage(error);
  return new DataplaneError(
    isExhausted(error) ? 'exhausted' : 'refused',
    `${file} cannot be run: ${reason}`,
    'check the file, /dev/null, and the limits of the pod (files, processes, memory)',
  );
}
