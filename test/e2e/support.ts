import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { BINARY } from '../lab/binary.ts';
import { type Box, createBox } from '../lab/box.ts';
import type { MemoryCgroup } from '../lab/cgroups.ts';
import { owning } from '../lab/owning.ts';
import { type RunResult, run } from '../lab/run.ts';
import { type Files, ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';

export { BINARY };

/** Runs a program without some of what it asks of the kernel; its head says how. */
export const REFUSE = fileURLToPath(new URL('../lab/refuse.pl', import.meta.url));

/** For NodeLab.fetch. */
export const SERVED = '--metrics-bind-address=127.0.0.1:9614';

/** Not `fetch`, which takes twice as long to load as all else. */
const FETCH = `require('node:http').get(process.argv[1], (page) => {
  process.stdout.write(page.statusCode + ' ');
  page.on('end', () => console.log()).pipe(process.stdout);
})`;

/** A node: a private network namespace and a config directory. */
export interface NodeLab extends AsyncDisposable {
  readonly box: Box;
  /** A scratch directory; the config directory is `config` below it. */
  readonly dir: string;
  readonly configDir: string;
  /** Lays out the config directory as a projected volume. */
  volume(files: Files): Promise<ProjectedVolume>;
  /** Runs the built agent to its end. */
  agent(...args: string[]): Promise<RunResult>;
  /** Starts the built agent. */
  start(...args: string[]): RunningAgent;
  /** All of `nat` of both families and modes: what must not change on an error. */
  kernel(): Promise<string>;
  /** The status and the body that the agent answers that was started with SERVED. @param host where it listens too */
  fetch(path: string, host?: string): Promise<string>;
  /** What it shows to Prometheus. */
  metrics(): Promise<string>;
  /** Runs a program that must succeed; returns its output. */
  run(file: string, ...args: string[]): Promise<string>;
  /** Feeds a script to nft; returns its output. */
  nft(script: string): Promise<string>;
  /** Feeds lines of `nat` to iptables-restore or its like. */
  restore(tool: string, ...lines: string[]): Promise<void>;
  /** The rules of our chain, each without `-A CHAIN`. */
  chain(family?: 'iptables' | 'ip6tables'): Promise<readonly string[]>;
  iptables(...args: string[]): Promise<string>;
}

export interface RunningAgent {
  /** What it has logged so far. */
  log(): string;
  /** Waits until the log matches, and returns the match. */
  logged(pattern: RegExp): Promise<RegExpExecArray>;
  kill(signal: NodeJS.Signals): void;
  /** Ends it as kubelet does: it must end with exit code 0. */
  stop(): Promise<void>;
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
}

/**
 * @param binary the built agent to run
 * @param cgroup where the agent runs
 */
export const createNode = (binary = BINARY, cgroup?: MemoryCgroup): Promise<NodeLab> =>
  owning(async (stack) => {
    const box = stack.use(await createBox());
    const { path: dir } = stack.use(await temporaryDirectory());
    const configDir = join(dir, 'config');
    await mkdir(configDir, { mode: 0o755 });
    const must = async (file: string, args: readonly string[], input?: string) => {
      const { code, stdout, stderr } = await box.run(file, args, input === undefined ? {} : { input });
      assert.equal(code, 0, `${file} ${args.join(' ')}: ${stderr}`);
      return stdout;
    };
    const fetch = (path: string, host = '127.0.0.1') =>
      must(process.execPath, ['-e', FETCH, `http://${host}:9614${path}`]);
    const command = (args: readonly string[]) => [
      `--config-dir=${configDir}`,
      `--termination-log=${dir}/none`,
      // Several agents may run in one box; who wants the server says so behind.
      '--metrics-bind-address=',
      ...args,
    ];
    const agentBox = cgroup === undefined ? box : within(cgroup, box);
    return {
      box,
      dir,
      configDir,
      volume: (files) => ProjectedVolume.create(configDir, files),
      agent: (...args) => agentBox.run(binary, command(args)),
      start: (...args) => startAgent(agentBox, binary, command(args)),
      kernel: async () => {
        const tables = ['iptables-nft', 'ip6tables-nft', 'iptables-legacy', 'ip6tables-legacy'];
        const listings = await Promise.all(tables.map((table) => must(table, ['-t', 'nat', '-v', '-S'])));
        return listings.join('');
      },
      fetch,
      metrics: () => fetch('/metrics'),
      run: (file, ...args) => must(file, args),
      nft: (script) => must('nft', ['-f', '-'], `${script}\n`),
      restore: async (tool, ...lines) => {
        // The agent may look at the rules at the same time: in legacy mode only one of them has the lock.
        await must(tool, ['--noflush', '--wait'], ['*nat', ...lines, 'COMMIT', ''].join('\n'));
      },
      chain: async (family = 'iptables') => {
        const lines = (await must(`${family}-nft`, ['-t', 'nat', '-S', 'IP-MASQ-AGENT'])).split('\n');
        return lines
          .filter((line) => line.startsWith('-A '))
          .map((line) => line.slice('-A IP-MASQ-AGENT '.length));
      },
      iptables: (...args) => must('iptables-nft', ['-t', 'nat', ...args]),
    };
  });

/** The same box, of which every program runs in the cgroup. */
function within(cgroup: MemoryCgroup, box: Box): Box {
  const wrap: Box['wrap'] = (file, args) => cgroup.wrap(box.wrap(file, args));
  return {
    ...box,
    wrap,
    run: (file, args, options) => run(wrap(file, args), box.env, options),
    spawn: (file, args, options = {}) => {
      const command = wrap(file, args);
      return spawn(command.file, command.args, { ...options, env: { ...box.env, ...options.env } });
    },
  };
}

function startAgent(box: Box, binary: string, args: readonly string[]): RunningAgent {
  const child = box.spawn(binary, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let text = '';
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal }));
  });
  return {
    log: () => text,
    logged: async (pattern) => {
      await eventually(
        () => pattern.test(text),
        () => `the log to match ${pattern}; it is:\n${text}`,
      );
      const match = pattern.exec(text);
      assert.ok(match);
      return match;
    },
    kill: (signal) => child.kill(signal),
    stop: async () => {
      child.kill('SIGTERM');
      assert.deepEqual(await ended, { code: 0, signal: null }, text);
    },
    ended,
  };
}

/** Holds the lock as an agent of no known flags. */
const STAND_IN = `require('node:net').createServer((socket) => socket.end('{"version":"0","flags":[]}'))
  .listen('\\0ip-masq-agent', () => console.log('held'))`;

/** Works beside a process that passes for the node's agent: a real one would repair what a test breaks. */
export async function besideAgent<Result>(
  { box }: Pick<NodeLab, 'box'>,
  work: () => Promise<Result>,
): Promise<Result> {
  const child = box.spawn(process.execPath, ['-e', STAND_IN], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout ?? assert.fail(), 'data');
  try {
    return await work();
  } finally {
    child.kill('SIGKILL');
    await once(child, 'close');
  }
}

interface FaultyNode extends NodeLab {
  /** A directory of its own. */
  readonly scratch: string;
}

/**
 * A node whose agent is started by a script of sh: `$AGENT "$@"` runs it, `$DIR` is a directory of its own, first on PATH, in which
 * are the programs of these names.
 */
export const faultyNode = (
  script: string,
  programs: Readonly<Record<string, string>> = {},
): Promise<FaultyNode> =>
  owning(async (stack) => {
    const { path: scratch } = stack.use(await temporaryDirectory());
    const files = { agent: `AGENT=${BINARY} PATH=$DIR:$PATH\n${script}`, ...programs };
    for (const [name, text] of Object.entries(files)) {
      await writeFile(join(scratch, name), `#!/bin/sh\nDIR=${scratch}\n${text}\n`);
      await chmod(join(scratch, name), 0o755);
    }
    const node = stack.use(await createNode(join(scratch, 'agent')));
    return { ...node, scratch };
  });

/** A config file that leaves these alone. */
export const inside = (...cidrs: readonly string[]): string => `nonMasqueradeCIDRs: [${cidrs.join(', ')}]\n`;

/** Far longer than anything takes: only a failure waits so long. */
const PATIENCE_MS = 60_000;
/** To look often costs as much as what is waited for: most looks start a program. */
const PAUSE_MS = 15;

/** Waits until the condition holds; fails where it never does. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  what: () => string,
): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) assert.fail(`waited in vain for ${what()}`);
    await delay(PAUSE_MS);
  }
}

/** Waits for an answer of an agent that was started with SERVED: it makes that of a path at most once a second. */
export async function answers(node: NodeLab, path: string, pattern: RegExp): Promise<void> {
  let last = '';
  await eventually(
    async () => {
      last = await node.fetch(path);
      return pattern.test(last);
    },
    () => `${path} to match ${pattern}: ${last}`,
  );
}

/** Holds the node's xtables lock until killed. */
export async function holdLock(node: NodeLab): Promise<{ kill(): void }> {
  const lock = node.box.env['XTABLES_LOCKFILE'] ?? '';
  const child = node.box.spawn('flock', [lock, 'cat'], { stdio: ['pipe', 'ignore', 'ignore'] });
  await eventually(
    async () => (await node.box.run('flock', ['--nonblock', lock, 'true'])).code !== 0,
    () => 'the lock to be held',
  );
  return { kill: () => child.stdin?.end() };
}

/** The lines of a JSON log. */
export function jsonLines(log: string): readonly Record<string, unknown>[] {
  return log
    .split('\n')
    .filter((line) => line !== '')
    .map((line): Record<string, unknown> => JSON.parse(line));
}
