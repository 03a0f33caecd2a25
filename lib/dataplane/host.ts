import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { errorCode, errorMessage, isExhausted } from '../text/error.ts';
import { DataplaneError } from './error.ts';
import type { Netlink } from './netlink.ts';
import { killTool, running } from './running.ts';

/** The machine, as a dataplane uses it: it runs tools, reads files, and asks nf_tables over netlink. */
export interface Host {
  /**
   * Runs a tool without a shell and waits for its end. An exit code other than 0 is not an error here.
   *
   * @throws {DataplaneError} `missing` if there is no such tool, `exhausted` if it cannot be started or is killed, `refused` if it does not
   * end in time
   */
  run(file: string, args: readonly string[], input?: string): Promise<ToolResult>;
  /** The text of a file; empty if there is no such file, undefined if it may not be read. */
  readText(path: string): Promise<string | undefined>;
  /** Asks nf_tables directly; absent if only tools are to be used. */
  readonly netlink?: Netlink;
}

export interface ToolResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
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
    run: (file, args, input) => runTool(file, args, input, env, timeoutMs),
    readText: (path) =>
      readFile(path, 'utf8').catch((error: unknown) => (errorCode(error) === 'ENOENT' ? '' : undefined)),
  };
}

function runTool(
  file: string,
  args: readonly string[],
  input: string | undefined,
  env: NodeJS.ProcessEnv,
  timeoutMs: number,
): Promise<ToolResult> {
  return new Promise((resolve, reject) => {
    const child = start(file, args, input === undefined ? 'ignore' : 'pipe', env);
    running.add(child.pid);
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    let length = 0;
    const giveUp = (reason: string, remedy: string): void => {
      cancel();
      killTool(child.pid);
      // A process that has left the group of the tool may keep the pipes open.
      child.stdout?.destroy();
      child.stderr?.destroy();
      reject(new DataplaneError('refused', `${file} ${reason}`, remedy));
    };
    const cancel = afterRunning(timeoutMs, () =>
      giveUp(
        `did not end within ${timeoutMs} ms`,
        'find out what it waits for on the node, or raise --sync-timeout',
      ),
    );
    const collect = (chunks: Buffer[]) => (chunk: Buffer) => {
      length += chunk.length;
      if (length <= MAX_OUTPUT_BYTES) chunks.push(chunk);
      else giveUp('prints more than 32 MiB', 'run it by hand on the node: is it a wrapper?');
    };
    // Without a free file descriptor there are no pipes, and an error event follows.
    child.stdout?.on('data', collect(stdout));
    child.stderr?.on('data', collect(stderr));
    child.on('error', (error) => {
      cancel();
      reject(spawnError(file, error));
    });
    child.on('close', (code, signal) => {
      cancel();
      running.delete(child.pid);
      // It says nothing about what the tool was asked.
      if (code === null)
        return reject(
          new DataplaneError(
            'exhausted',
            `${file} was ended by ${signal}`,
            'look for a lack of memory: dmesg',
          ),
        );
      return resolve({
        code,
        stdout: Buffer.concat(stdout).toString(),
        stderr: Buffer.concat(stderr).toString(),
      });
    });
    // A tool that ends before it has read all input says why on standard error.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
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

/** Starts the tool, in a process group of its own. Node reports some errors as events, and throws others, such as too many open files. */
function start(
  file: string,
  args: readonly string[],
  stdin: 'ignore' | 'pipe',
  env: NodeJS.ProcessEnv,
): ChildProcess {
  try {
    // Without input, one pipe less at every observation.
    return spawn(file, args, { env, detached: true, stdio: [stdin, 'pipe', 'pipe'] });
  } catch (error) {
    throw spawnError(file, error);
  }
}

/** The environment that the tools need: messages in English, and the XTABLES_* variables of iptables(8). */
function toolEnvironment(): NodeJS.ProcessEnv {
  const xtables = Object.entries(process.env).filter(([name]) => name.startsWith('XTABLES_'));
  return { ...Object.fromEntries(xtables), PATH: process.env['PATH'] || SYSTEM_PATH, LC_ALL: 'C' };
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
