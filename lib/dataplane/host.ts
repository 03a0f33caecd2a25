import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { noteOwnPort } from '../netlink/own-ports.ts';
import { errorCode, errorMessage, isExhausted } from '../text/error.ts';
import { DataplaneError } from './error.ts';
import type { Netlink } from './netlink.ts';
import { killTool, running } from './running.ts';

/** The machine, as a dataplane uses it: it runs tools, reads files, and asks nf_tables over netlink. */
export interface Host {
  /**
   * Runs a tool without a shell and waits for its end. An exit code other than 0 is not an error here.
   *
   * @param mostBytes a tool that prints more is killed, and what it has printed until then is the result
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
  /** Whether it has printed more than `mostBytes`, and was killed: its exit code is not 0. */
  readonly isCut?: boolean;
}

/** The directories of the tools if PATH is not set. */
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** The most that a tool may print. nft lists 100,000 elements with their counters in 5 MiB. */
const MAX_OUTPUT_BYTES = 32 * 1024 * 1024;

/** The signals of a tool that crashes, as iptables does at some rules of nft(8), and the exit code that a shell makes of one. */
const CRASHES: readonly string[] = ['SIGSEGV', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGILL'];
const CRASHED = 139;

/** The exit code that a shell makes of the end of a tool that was killed. */
const KILLED = 137;

/** What stands behind what a crashed tool has printed. */
export function crashText(signal: string | null): string {
  return `crashed: ${signal}`;
}

/** How long the end of a tool that was killed may take. */
const KILL_MS = 1_000;

/** The machine that the agent runs on. A tool that runs longer than `timeoutMs`, or prints too much, is killed. */
export function systemHost(timeoutMs: number, netlink?: Netlink): Host {
  const env = toolEnvironment();
  return {
    ...(netlink && { netlink }),
    async run(file, args, input, mostBytes) {
      try {
        // Without input, one pipe less at every observation.
        const stdin = input === undefined ? 'ignore' : 'pipe';
        const child = spawn(file, args, { env, detached: true, stdio: [stdin, 'pipe', 'pipe'] });
        noteOwnPort(child.pid);
        // A tool that ends before it has read all input says why on standard error.
        child.stdin?.on('error', () => {});
        child.stdin?.end(input);
        const end = await endOf(child, timeoutMs, mostBytes ?? MAX_OUTPUT_BYTES);
        if (CRASHES.includes(end.signal ?? ''))
          return { ...end, code: CRASHED, stderr: `${end.stderr}${crashText(end.signal)}` };
        return { ...end, code: end.isCut ? KILLED : exitCode(file, timeoutMs, end) };
      } catch (error) {
        throw error instanceof DataplaneError ? error : spawnError(file, error);
      }
    },
    async readText(path) {
      try {
        return readFileSync(path, 'utf8');
      } catch (error) {
        return errorCode(error) === 'ENOENT' ? '' : undefined;
      }
    },
  };
}

interface ToolEnd extends Omit<ToolResult, 'code'> {
  readonly code: number | null;
  readonly signal: string | null;
  readonly isLate: boolean;
}

/** @throws {DataplaneError} if it has none */
function exitCode(file: string, timeoutMs: number, { code, signal, isLate }: ToolEnd): number {
  // Also after its time: if this process was stopped meanwhile, it has ended long ago.
  if (code !== null) return code;
  if (isLate)
    throw new DataplaneError(
      'refused',
      `${file} did not end within ${timeoutMs} ms`,
      'find out what it waits for on the node, or raise --sync-timeout',
    );
  // It says nothing about what the tool was asked.
  throw new DataplaneError('exhausted', `${file} was ended by ${signal}`, 'look for a lack of memory: dmesg');
}

/** Waits for the end of a tool that leads a process group, in which are also the processes that it has started. */
async function endOf(child: ChildProcess, timeoutMs: number, mostBytes: number): Promise<ToolEnd> {
  const { promise, resolve, reject } = Promise.withResolvers<Pick<ToolEnd, 'code' | 'signal'>>();
  let [length, isLate] = [0, false];
  const collect = (stream: Readable | null): readonly Buffer[] => {
    const chunks: Buffer[] = [];
    stream?.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length <= mostBytes) chunks.push(chunk);
      else killTool(child.pid);
    });
    return chunks;
  };
  // Without a free file descriptor there are no pipes, and an error event follows.
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
  running.add(child.pid);
  child.on('error', reject);
  child.on('close', (code, signal) => {
    running.delete(child.pid);
    resolve({ code, signal });
  });
  let timer = setTimeout(() => {
    isLate = true;
    killTool(child.pid);
    // A process that has left the group may keep the output open, and a system call may not be interrupted.
    timer = setTimeout(() => resolve({ code: null, signal: null }), KILL_MS);
  }, timeoutMs);
  try {
    const end = await promise;
    const texts = { stdout: `${Buffer.concat(stdout)}`, stderr: `${Buffer.concat(stderr)}` };
    return { ...end, ...texts, isCut: length > mostBytes, isLate };
  } finally {
    clearTimeout(timer);
    child.stdout?.destroy();
    child.stderr?.destroy();
  }
}

/** The environment that the tools need: messages in English, and the XTABLES_* variables of iptables(8). */
function toolEnvironment(): Readonly<Record<string, string>> {
  const kept = Object.entries(process.env).filter(([name]) => name.startsWith('XTABLES_'));
  return { ...Object.fromEntries(kept), PATH: process.env['PATH'] || SYSTEM_PATH, LC_ALL: 'C' };
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
