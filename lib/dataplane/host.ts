import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { spawn as spawnWithoutFork } from '../netlink/spawn.ts';
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
  // Without netlink the native module is not loaded.
  const start = netlink === undefined ? startByFork : startTool;
  return {
    ...(netlink && { netlink }),
    run: (file, args, input, mostBytes) => {
      const starting = () => start(file, args, input, env, mostBytes ?? MAX_OUTPUT_BYTES);
      return runTool(timeoutMs, starting, file, mostBytes !== undefined);
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

/** A tool that runs, in a process group of its own. `running` knows it until it has ended. */
interface Tool {
  readonly pid: number | undefined;
  readonly ended: Promise<
    Omit<ToolResult, 'code'> & { readonly code: number | null; readonly signal: string | null | undefined }
  >;
  /** Waits no more for a process that has left the group, and may keep the output open. */
  release?(): void;
}

async function runTool(
  timeoutMs: number,
  start: () => Tool,
  file: string,
  mayCut: boolean,
): Promise<ToolResult> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const fail = (reason: string, remedy: string) => new DataplaneError('refused', `${file} ${reason}`, remedy);
  const cancel = afterRunning(timeoutMs, () => {
    const remedy = 'find out what it waits for on the node, or raise --sync-timeout';
    reject(fail(`did not end within ${timeoutMs} ms`, remedy));
  });
  let tool: Tool | undefined;
  try {
    tool = start();
    const { code, signal, stdout, stderr } = await Promise.race([tool.ended, late]);
    if (signal === TOO_MUCH && mayCut) {
      stop(tool);
      return { code: 0, stdout, stderr, isCut: true };
    }
    if (signal === TOO_MUCH)
      throw fail('prints more than 32 MiB', 'run it by hand on the node: is it a wrapper?');
    // It says nothing about what the tool was asked.
    if (code === null)
      throw new DataplaneError(
        'exhausted',
        `${file} was ended by ${signal}`,
        'look for a lack of memory: dmesg',
      );
    return { code, stdout, stderr };
  } catch (error) {
    stop(tool);
    throw error instanceof DataplaneError ? error : spawnError(file, error);
  } finally {
    cancel();
  }
}

function stop(tool: Tool | undefined): void {
  killTool(tool?.pid);
  tool?.release?.();
}

/** The signal of a tool that prints too much (setrlimit(2)). */
const TOO_MUCH = 'SIGXFSZ';

/** If the cheap way fails, the other one tells why. */
function startTool(...[file, args, input = '', env, mostBytes]: Parameters<typeof startByFork>): Tool {
  const texts = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const tool = spawnWithoutFork(file, args, texts, input, mostBytes);
  if (tool === undefined) return startByFork(file, args, input, env, mostBytes);
  running.add(tool.pid);
  return { ...tool, ended: tool.ended.finally(() => running.delete(tool.pid)) };
}

/** Node.js reports some errors as events, and throws others, such as too many open files. */
function startByFork(
  file: string,
  args: readonly string[],
  input: string | undefined,
  env: Readonly<Record<string, string>>,
  mostBytes: number,
): Tool {
  // Without input, one pipe less at every observation.
  const stdin = input === undefined ? 'ignore' : 'pipe';
  const child = spawn(file, args, { env, detached: true, stdio: [stdin, 'pipe', 'pipe'] });
  running.add(child.pid);
  const { promise: ended, resolve, reject } = Promise.withResolvers<Awaited<Tool['ended']>>();
  const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []];
  const text = (chunks: readonly Buffer[]) => Buffer.concat(chunks).toString();
  let length = 0;
  const collect = (chunks: Buffer[]) => (chunk: Buffer) => {
    length += chunk.length;
    if (length <= mostBytes) chunks.push(chunk);
    else resolve({ code: null, signal: TOO_MUCH, stdout: text(stdout), stderr: text(stderr) });
  };
  // Without a free file descriptor there are no pipes, and an error event follows.
  child.stdout?.on('data', collect(stdout));
  child.stderr?.on('data', collect(stderr));
  child.on('error', reject);
  child.on('close', (code, signal) => {
    running.delete(child.pid);
    resolve({ code, signal, stdout: text(stdout), stderr: text(stderr) });
  });
  // A tool that ends before it has read all input says why on standard error.
  child.stdin?.on('error', () => {});
  child.stdin?.end(input);
  const release = () => {
    child.stdout?.destroy();
    child.stderr?.destroy();
  };
  return { pid: child.pid, ended, release };
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
