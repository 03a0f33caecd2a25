import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from '../../lab/run.ts';
import { toolEnvironment } from './environment.ts';

const RESTART_AFTER_MS = 500;
const TAIL_LINES = 25;

/** Starts programs, each with a log of its own, and starts them again when they end, as systemd does on a real node. */
export interface Daemons {
  start(name: string, command: Command): void;
  /** From now on a program that ends is started again. Before, it rejects `failed`. */
  keep(): void;
  /** From now on nothing is started. */
  stop(): void;
  /** Rejects if a program ends before `keep`. */
  readonly failed: Promise<never>;
}

export function createDaemons(logs: string): Daemons {
  const { promise: failed, reject } = Promise.withResolvers<never>();
  // Nobody may be waiting when it happens.
  failed.catch(() => {});
  let phase: 'starting' | 'keeping' | 'stopping' = 'starting';
  const tend = async (name: string, command: Command): Promise<void> => {
    while (phase !== 'stopping') {
      const [code, signal] = await ended(launch(command, join(logs, `${name}.log`)));
      if (phase === 'starting') return reject(new Error(`${name} ended (${signal ?? code})`));
      await delay(RESTART_AFTER_MS, undefined, { ref: false });
    }
  };
  return {
    start: (name, command) => void tend(name, command).catch(reject),
    keep: () => {
      phase = 'keeping';
    },
    stop: () => {
      phase = 'stopping';
    },
    failed,
  };
}

function launch({ file, args }: Command, log: string): ChildProcess {
  const output = openSync(log, 'a', 0o600);
  try {
    return spawn(file, args, { env: toolEnvironment(), stdio: ['ignore', output, output] });
  } finally {
    closeSync(output);
  }
}

async function ended(child: ChildProcess): Promise<readonly [number | null, NodeJS.Signals | null]> {
  const [code, signal] = await once(child, 'exit');
  return [code, signal];
}

/** The last lines of every log, for a message about what failed. */
export async function tails(logs: string): Promise<string> {
  const files = (await readdir(logs).catch(() => [])).map((name) => join(logs, name));
  const parts = files.map(async (file) => {
    const lines = (await readFile(file, 'utf8')).trimEnd().split('\n').slice(-TAIL_LINES);
    return [`--- the end of ${file}:`, ...lines].join('\n');
  });
  return (await Promise.all(parts)).join('\n');
}
