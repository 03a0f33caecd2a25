/** Which tools the agent calls, as a stand-in for each of them in PATH notes down. */
import { readFile, rm, symlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { succeed } from '../lab/run.ts';
import { ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';
import { agentFlags, BINARY, startAgent } from './agent.ts';
import { type Call, decodeCalls } from './calls.ts';
import type { BenchNode } from './node.ts';
import { type Families, sources } from './sources.ts';

const RECORDER = fileURLToPath(new URL('recorder.pl', import.meta.url));
const MODES = ['', '-nft', '-legacy'];
const TOOLS = [
  'nft',
  ...['iptables', 'ip6tables'].flatMap((tool) =>
    MODES.flatMap((mode) => ['', '-restore', '-save'].map((what) => `${tool}${mode}${what}`)),
  ),
];

/** Longer than a tool takes, which is noted down when it starts. */
const QUIET_MS = 700;

interface Recorder extends AsyncDisposable {
  /** To stand first in PATH. */
  readonly dir: string;
  /** The calls since the last time, once none has come for a while. */
  take(): Promise<readonly Call[]>;
}

/** Makes one whose directory goes away when it is disposed of. */
export async function createRecorder(): Promise<Recorder> {
  const { path: dir, ...owned } = await temporaryDirectory();
  for (const tool of TOOLS) await symlink(RECORDER, `${dir}/${tool}`);
  const file = `${dir}/calls`;
  return {
    dir,
    async take() {
      const read = () => readFile(file, 'utf8').catch(() => '');
      let text = await read();
      for (let before: string | undefined; before !== text; text = await read()) {
        before = text;
        await delay(QUIET_MS);
      }
      await rm(file, { force: true });
      return decodeCalls(text);
    },
    ...owned,
  };
}

/** The calls of a first `--once`, until it ends. */
export async function recordOnce({ box }: BenchNode, families: Families): Promise<readonly Call[]> {
  await using recorder = await createRecorder();
  await using dir = await temporaryDirectory();
  const volume = await ProjectedVolume.create(`${dir.path}/config`, sources(0, families));
  const path = `PATH=${recorder.dir}:${box.env['PATH']}`;
  await succeed(box.run('env', [path, BINARY, '--once', ...agentFlags(volume.dir, families)]));
  return await recorder.take();
}

/** The calls of a running agent. */
export interface Recorded {
  /** Of a resync that finds nothing to do. */
  readonly idle: readonly Call[];
  /** Of a change; what comes after the last write is the look for rules of others. */
  readonly change: readonly Call[];
}

export async function recordRunning(node: BenchNode, families: Families): Promise<Recorded> {
  await using recorder = await createRecorder();
  await using agent = await startAgent(node, { families, path: recorder.dir });
  await recorder.take();
  await agent.swap(1);
  const change = await recorder.take();
  // The scrape before it reads the counters, and the one after the second finds them fresh.
  await agent.resync(1);
  await recorder.take();
  await agent.resync(1);
  return { idle: await recorder.take(), change };
}

/**
 * Those until the last write: then the rules are in the kernel.
 *
 * @throws where nothing is written
 */
export function untilWritten(calls: readonly Call[]): readonly Call[] {
  const last = calls.findLastIndex(({ command: [file = ''] }) => file.endsWith('-restore'));
  if (last < 0) throw new Error(`no write among ${calls.length} calls`);
  return calls.slice(0, last + 1);
}
