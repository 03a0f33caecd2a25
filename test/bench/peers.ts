/** The agents that this one replaces, built from their own sources: each on a node of its own, with the same config. */
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { goEnvironment } from '../cluster/local/go.ts';
import { watchGenerations } from '../lab/generations.ts';
import { readLines } from '../lab/lines.ts';
import { run, succeed } from '../lab/run.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../lab/volume.ts';
import { BINARY } from './agent.ts';
import { CHAIN, prefixesOf } from './config-files.ts';
import { createNode, PLAIN_NODE } from './node.ts';
import { type BenchOptions, row, type Table, takeTurns } from './part.ts';
import { cpuDuring, memoryOf } from './proc.ts';

interface Peer {
  readonly name: string;
  /** The program and its arguments, given the directory of its config. */
  command(config: string): readonly string[];
}

const THIS_AGENT: Peer = {
  name: 'this agent',
  command: (config) => [
    BINARY,
    `--config-dir=${config}`,
    '--backend=iptables',
    '--termination-log=/dev/null',
  ],
};

/** A variable names the directory of each one's sources; without it that agent is left out. */
const OLDER_AGENTS = [
  { name: 'ip-masq-agent', variable: 'PEER_V1_SOURCE', folder: './cmd/ip-masq-agent' },
  { name: 'ip-masq-agent-v2', variable: 'PEER_V2_SOURCE', folder: './cmd/ip-masq-agent-v2' },
] as const;

const BUILD_TIMEOUT_MS = 600_000;

/** The older agents read /etc/config: they get an /etc of their own, which has nothing else. */
const WITH_ETC =
  'mount -t tmpfs tmpfs /etc && mkdir /etc/config && mount --bind "$0" /etc/config && exec "$@"';

export async function* peers({ rounds }: BenchOptions): AsyncIterable<Table> {
  await using dir = await temporaryDirectory();
  const older = await buildOlderAgents(dir);
  if (older.length === 0) return;
  const all = [THIS_AGENT, ...older];
  const tools = await linkTools(dir);
  const starts = await takeTurns(
    rounds(10),
    Object.fromEntries(all.map((peer) => [peer.name, async () => await startTime(peer, tools)])),
  );
  const lives = await Promise.all(all.map((peer) => observe(peer, tools, rounds(3))));
  const rows = all.flatMap(({ name }, index) => {
    const of = lives[index];
    if (of === undefined) return [];
    return [
      row(`${name}: exec → rules in the kernel`, 'ms', starts[name]?.['took'] ?? []),
      row(`${name}: rules written in three idle minutes`, '', [of.written]),
      row(`${name}: CPU of these minutes, with tools`, 'ms', [of.cpu]),
      row(`${name}: resident memory after them`, 'MB', [of.resident]),
      row(`${name}: chain flushed → repaired`, 'ms', of.repairs),
      row(`${name}: file written in place → kernel`, 'ms', of.changes),
    ];
  });
  yield { title: `${prefixesOf(0, 'IPv4').length} CIDRs, IPv4, nft mode, each with its defaults`, rows };
}

async function buildOlderAgents({ path }: TemporaryDirectory): Promise<readonly Peer[]> {
  const built: Peer[] = [];
  for (const { name, variable, folder } of OLDER_AGENTS) {
    const source = process.env[variable];
    if (!source) continue;
    const program = `${path}/${name}`;
    const args = ['build', '-C', source, '-buildvcs=false', '-o', program, folder];
    await succeed(run({ file: 'go', args }, goEnvironment(), { timeoutMs: BUILD_TIMEOUT_MS }));
    built.push({ name, command: (config) => ['unshare', '--mount', 'sh', '-c', WITH_ETC, config, program] });
  }
  return built;
}

/** A directory in which `iptables` is that of nft mode, whatever the machine prefers. */
async function linkTools({ path }: TemporaryDirectory): Promise<string> {
  const tools = `${path}/tools`;
  await mkdir(tools);
  for (const name of ['iptables', 'iptables-save', 'iptables-restore'])
    await symlink('/usr/sbin/xtables-nft-multi', `${tools}/${name}`);
  return tools;
}

/** No transaction of a sync comes so much later than the one before. */
const QUIET_MS = 1_500;
const POLL_MS = 100;
const IDLE_MS = 180_000;
/** That of the older agents, and this one looks as often if nothing tells it of changes. */
const INTERVAL_MS = 60_000;

async function startTime(peer: Peer, tools: string) {
  await using running = await startPeer(peer, tools);
  return { took: running.took };
}

/** Starts it, and waits until its rules are in the kernel. */
async function startPeer(peer: Peer, tools: string) {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const { box } = stack.use(await createNode(PLAIN_NODE));
  const generations = stack.use(await watchGenerations(box));
  const write = async (number: number) => {
    const text = `nonMasqueradeCIDRs: ${JSON.stringify(prefixesOf(number, 'IPv4'))}\n`;
    await writeFile(`${path}/ip-masq-agent`, text);
  };
  /** When the last transaction of the next sync that writes was there. */
  const nextSync = async () => {
    const deadline = performance.now() + 2 * INTERVAL_MS;
    let last: number | undefined;
    while (last === undefined || performance.now() - last < QUIET_MS) {
      if (performance.now() > deadline) throw new Error(`${peer.name} writes nothing`);
      await delay(POLL_MS);
      last = generations.drain().at(-1)?.at ?? last;
    }
    return last;
  };
  await write(0);
  const [file = '', ...args] = peer.command(path);
  const start = performance.now();
  const child = box.spawn(file, args, { stdio: 'ignore', env: { PATH: `${tools}:${box.env['PATH']}` } });
  const took = (await nextSync()) - start;
  const owned = stack.move();
  return {
    box,
    generations,
    nextSync,
    pid: child.pid ?? Number.NaN,
    took,
    write,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function observe(peer: Peer, tools: string, rounds: number) {
  await using running = await startPeer(peer, tools);
  const { box, pid, nextSync, write } = running;
  const monitor = box.spawn('nft', ['monitor', 'new', 'rules'], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (monitor.stdout === null) throw new Error('a pipe was asked for');
  const lines = readLines(monitor.stdout, 'a rule');
  const used = await cpuDuring(pid, () => delay(IDLE_MS));
  const written = lines.drain().length;
  monitor.kill();
  running.generations.drain();
  const { resident } = memoryOf(pid);
  const repairs: number[] = [];
  const changes: number[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    // At another moment of the interval each time.
    await delay((INTERVAL_MS * (round - 0.5)) / rounds);
    running.generations.drain();
    await succeed(box.run('iptables-nft', ['-t', 'nat', '-F', CHAIN]));
    const { at: flushed } = await running.generations.next();
    repairs.push((await nextSync()) - flushed);
    await delay((INTERVAL_MS * (round - 0.5)) / rounds);
    running.generations.drain();
    const start = performance.now();
    await write(round);
    changes.push((await nextSync()) - start);
  }
  return { written, cpu: used.own + used.children, resident, repairs, changes };
}
