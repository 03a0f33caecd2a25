/**
 * Lets the built agent run while other programs change its rules, and its config, flags and addresses change, at random. After
 * each round the kernel must come to hold what a first sync makes of an empty one, and the agent must be ready.
 * Usage: [SEED=1] [SECONDS=120] node test/fuzz/fuzz.ts; the first walk is that of the seed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import {
  CONFIG_FILE,
  configs,
  createFreshStates,
  type FreshStates,
  NODE_ADDRESSES,
  type Setting,
  setAddresses,
  WAY_FLAGS,
} from '../e2e/fresh.ts';
import { createNode, jsonLines, type NodeLab, type RunningAgent, SERVED } from '../e2e/support.ts';
import {
  carryOut,
  type Edit,
  edits,
  iptablesOf,
  PROTOCOLS,
  type Saved,
  save,
  type Way,
} from '../lab/edits.ts';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import type { Helper } from '../lab/helper.ts';
import { startFetcher } from '../lab/helpers.ts';
import { empty, kernelState, withoutOrphans } from '../lab/kernel-state.ts';
import type { ProjectedVolume } from '../lab/volume.ts';

type Step =
  | { readonly edit: Edit }
  /** What concerns more than the agent's rules. */
  | { readonly command: readonly string[] }
  | { readonly config: string }
  | { readonly addresses: readonly string[] };

/** One run of the agent's process: how it is started, what happens in it, and how it ends. */
interface Life {
  readonly way: Way;
  readonly flags: readonly string[];
  /** After each round the agent has time to settle. */
  readonly rounds: readonly (readonly Step[])[];
  readonly end: 'SIGTERM' | 'SIGKILL';
}

interface Lab {
  readonly node: NodeLab;
  readonly fresh: FreshStates;
  readonly fetcher: Helper<Fetch, Fetched>;
  readonly volume: ProjectedVolume;
}

const WAYS = ['nftables', 'iptables-nft', 'iptables-legacy'] as const satisfies readonly Way[];
const LIVES = 3;
const MOST_FAILURES = 5;
/** Far longer than any repair takes: only a failure waits so long. */
const PATIENCE_MS = 15_000;

const FOREIGN_TABLE =
  'table ip foreign { chain postrouting { type nat hook postrouting priority 95; ip daddr 10.0.0.0/8 masquerade; }; }';
const STORM =
  'i=0; while [ $i -lt 40 ]; do nft "add table ip storm; add chain ip storm c; delete table ip storm"; i=$((i+1)); done';

/** What other programs do besides. Some fail, and change nothing. */
const COMMANDS: readonly (readonly string[])[] = [
  ['nft', 'flush ruleset'],
  ['nft', FOREIGN_TABLE],
  ['nft', 'delete table ip foreign'],
  ['sh', '-c', STORM],
  ...['iptables-nft', 'ip6tables-nft', 'iptables-legacy', 'ip6tables-legacy'].flatMap((tool) => [
    [tool, '-t', 'nat', '-F'],
    [tool, '-t', 'nat', '-A', 'POSTROUTING', '-s', '10.1.2.3', '-j', 'MASQUERADE'],
  ]),
];

const seconds = Number(process.env['SECONDS'] ?? 120);
const firstSeed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);
console.log(`fuzz: SEED=${firstSeed} SECONDS=${seconds}`);
process.exitCode = (await fuzz()) ? 0 : 1;

/** Whether all walks ended as they should. */
async function fuzz(): Promise<boolean> {
  await using node = await createNode();
  await using fresh = await createFreshStates(...WAYS);
  await using fetcher = await startFetcher(node.box);
  const lab = { node, fresh, fetcher, volume: await node.volume({}) };
  let [rounds, failures] = [0, 0];
  const end = performance.now() + seconds * 1_000;
  for (let seed = firstSeed; performance.now() < end && failures < MOST_FAILURES; seed += 1) {
    const [lives = []] = fc.sample(walks(), { seed, numRuns: 1 });
    const done: string[] = [];
    try {
      for (const life of lives) rounds += life.rounds.length;
      await walk(lab, lives, (what) => done.push(`  ${JSON.stringify(what)}`));
    } catch (error) {
      failures += 1;
      const reason = error instanceof Error ? error.message : String(error);
      console.log(`\nSEED=${seed} make fuzz\n${done.join('\n')}\n${reason}`);
    }
  }
  console.log(`fuzz: ${rounds} rounds, ${failures} failed walks`);
  return failures === 0;
}

function walks(): fc.Arbitrary<readonly Life[]> {
  const start = fc.record({
    way: fc.constantFrom<Way[]>('nftables', 'iptables-nft', 'nftables', 'iptables-nft', 'iptables-legacy'),
    flags: fc.subarray([
      '--enable-ipv6',
      '--to-ports=1024-29999,32768-65535',
      '--random-fully=false',
      '--nomasq-all-reserved-ranges',
    ]),
  });
  // Often the next process has the flags of the one before.
  return fc
    .array(fc.tuple(start, fc.boolean()), { minLength: LIVES, maxLength: LIVES })
    .map((list) => list.map(([one], index) => (list[index]?.[1] ? one : (list[index - 1]?.[0] ?? one))))
    .chain((starts) => fc.tuple(...starts.map((one) => lives(one))));
}

function lives(start: Pick<Life, 'way' | 'flags'>): fc.Arbitrary<Life> {
  const hasIPv6 = start.flags.includes('--enable-ipv6');
  const edit = edits(start.way)
    .filter((one) => hasIPv6 || one.protocol === 'ip')
    // An empty chain can be entered from there; the kernel then refuses MASQUERADE in it.
    .filter((one) => !('iptables' in one && /^(?:PREROUTING|OUTPUT)$/.test(one.iptables[1] ?? '')))
    // Packets on loopback would be masqueraded, and dropped for want of an address: nobody would reach the agent.
    .filter(
      (one) =>
        !('iptables' in one && /^-. (?:POSTROUTING|FOREIGN) .*MASQUERADE$/s.test(one.iptables.join(' '))),
    );
  const step: fc.Arbitrary<Step> = fc.oneof(
    { arbitrary: edit.map((edit) => ({ edit })), weight: 8 },
    { arbitrary: fc.constantFrom(...COMMANDS).map((command) => ({ command })), weight: 2 },
    { arbitrary: configs(hasIPv6).map((config) => ({ config })), weight: 3 },
    { arbitrary: fc.subarray([...NODE_ADDRESSES]).map((addresses) => ({ addresses })), weight: 1 },
  );
  // The config of the process before may have IPv6.
  const first = configs(hasIPv6).map((config): Step[] => [{ config }]);
  return fc
    .record({
      first,
      others: fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { maxLength: 5 }),
      end: fc.constantFrom<('SIGTERM' | 'SIGKILL')[]>('SIGTERM', 'SIGKILL'),
    })
    .map(({ first, others, end }) => ({ ...start, rounds: [first, ...others], end }));
}

/**
 * Leads the agent through its lives.
 *
 * @param tell is told what is about to happen
 * @throws if the agent ends, or the kernel does not come to hold what it should
 */
async function walk(lab: Lab, walk: readonly Life[], tell: (what: unknown) => void): Promise<void> {
  const { node } = lab;
  await empty(node.box);
  await setAddresses(node.box, []);
  let around: Pick<Setting, 'config' | 'addresses'> = { config: '', addresses: [] };
  for (const { rounds, end, ...start } of walk) {
    const { way, flags } = start;
    tell(start);
    const saved: Saved[] = [];
    // A chain that foreign rules lead to cannot be deleted by the agent that takes over.
    for (const protocol of PROTOCOLS)
      for (const one of WAYS.slice(1))
        await node.box.run(iptablesOf(one, protocol), ['-t', 'nat', '-F', 'FOREIGN']);
    let agent: RunningAgent | undefined;
    try {
      for (const round of rounds) {
        for (const step of round) {
          tell(step);
          around = { ...around, ...step };
          await take(lab, way, step, saved);
        }
        const pace = way === 'iptables-legacy' ? '1s' : '1h';
        agent ??= node.start(SERVED, `--resync-interval=${pace}`, ...WAY_FLAGS[way], ...flags);
        await settled(lab, agent, await lab.fresh.of({ ...around, way, flags }));
        saved.push(await save(node.box, way));
      }
    } finally {
      tell({ end });
      agent?.kill(end);
      await agent?.ended;
    }
  }
}

async function take({ node, volume }: Lab, way: Way, step: Step, saved: readonly Saved[]): Promise<void> {
  if ('edit' in step) await carryOut(node.box, way, step.edit, saved);
  else if ('config' in step) await volume.swap({ [CONFIG_FILE]: step.config });
  else if ('addresses' in step) await setAddresses(node.box, step.addresses);
  else await node.box.run(step.command[0] ?? '', step.command.slice(1));
}

/** Waits until the kernel holds this and the agent is ready. */
async function settled({ node, fetcher }: Lab, agent: RunningAgent, wanted: string): Promise<void> {
  let hasEnded = false;
  void agent.ended.then(() => {
    hasEnded = true;
  });
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const { own, foreign = '' } = await kernelState(node.box, ...WAYS);
    const { status } = await fetcher.ask({ url: 'http://127.0.0.1:9614/readyz' });
    const isSame = withoutOrphans(own) === withoutOrphans(wanted);
    // Then packets on loopback are masqueraded, and dropped for want of an address.
    const isCutOff = status === undefined && /^-A POSTROUTING -[jg] IP-MASQ-AGENT-FROM$/m.test(foreign);
    if (isSame && (status === 200 || isCutOff)) return;
    if (hasEnded || performance.now() > deadline) {
      const what = hasEnded ? 'the agent ended' : `/readyz: ${status}`;
      const log = jsonLines(agent.log()).map(({ level, msg }) => `${level}: ${msg}`);
      throw new Error(
        `${what}\n${differences(own, wanted)}\nthe end of the log:\n${log.slice(-8).join('\n')}`,
      );
    }
    await delay(50);
  }
}

function differences(found: string, wanted: string): string {
  const [is, should] = [found.split('\n'), wanted.split('\n')];
  return [
    ...is.filter((line) => !should.includes(line)).map((line) => `found  ${line}`),
    ...should.filter((line) => !is.includes(line)).map((line) => `wanted ${line}`),
  ].join('\n');
}
