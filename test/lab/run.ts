import { spawn } from 'node:child_process';

/** A program and its arguments, never a shell's line. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
}

export interface RunOptions {
  /** Text for the standard input, which is empty otherwise. */
  readonly input?: string;
  /** After that long the program is killed; 100 seconds where absent. */
  readonly timeoutMs?: number;
}

/** How a program ended and what it wrote. */
export interface RunResult {
  /** Null where a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export type Environment = Readonly<Record<string, string>>;

/** Runs a program to its end. Rejects only where the program cannot be started. */
export function run({ file, args }: Command, env: Environment, options: RunOptions = {}): Promise<RunResult> {
  const { input = '', timeoutMs = 100_000 } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { env, stdio: 'pipe' });
    const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
    // A program that ends without reading its input is no error (EPIPE).
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    child.on('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, stdout: text(stdout), stderr: text(stderr) });
    });
  });
}

/** The standard output of a run that must have succeeded. */
export async function succeed(running: Promise<RunResult>): Promise<string> {
  const { code, signal, stdout, stderr } = await running;
  if (code !== 0) throw new Error(`a command of the lab failed (${signal ?? code}): ${stderr.trim()}`);
  return stdout;
}

/** What came through a pipe. */
export function text(chunks: readonly Buffer[]): string {
  return Buffer.concat(chunks).toString();
}
