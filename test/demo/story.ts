import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { styleText } from 'node:util';
import { load } from 'js-yaml';
import { type Box, ownBox } from '../lab/box.ts';
import { type Monitor, monitorRules } from '../lab/monitor.ts';
import { createNetwork, type Network, NODE, POD } from '../lab/network.ts';
import { type Files, ProjectedVolume } from '../lab/volume.ts';
import { type Agent, rules, startAgent } from './agent.ts';
import { check, quote, result, say, step, table } from './show.ts';

const CHAIN = 'IP-MASQ-AGENT';

/** In the private mount namespace a file system of its own lies here, so that no file outlives the demo. */
const SCRATCH = '/dev/shm';

type Source = 'pod' | 'node';

interface Packet {
  readonly to: string;
  readonly why: string;
  readonly source: Source;
}

const INSIDE = '10.230.4.5';
const NEWLY_INSIDE = '10.64.7.8';

const PACKETS: readonly Packet[] = [
  { to: INSIDE, why: 'virtual network (cloud)', source: 'pod' },
  { to: '172.16.1.1', why: 'data centre (operator)', source: 'pod' },
  { to: '172.20.99.7', why: 'exception inside it (operator)', source: 'node' },
  { to: NEWLY_INSIDE, why: 'no range yet', source: 'node' },
  { to: '203.0.113.9', why: 'the internet', source: 'node' },
];

/** A range that the cloud provider adds, and the same with a mistake in it. */
const RANGE = '10.64.0.0/16';
const ADDED = `  - ${RANGE}    # a peered network\n`;
const BROKEN = '  - 10.64.0.1/10    # a wider one, mistyped\n';

/** Tells the whole story, checking every claim. Returns whether all were so. */
export async function tell(): Promise<boolean> {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=0755', 'tmpfs', SCRATCH]);
    process.env['TMPDIR'] = SCRATCH;
    await using node = await ownBox();
    await using network = await createNetwork(node);
    step('A private lab: three network namespaces, joined by links');
    say(`pod ${POD.IPv4}  --  node ${NODE.IPv4}  --  outside, which answers on every address`);

    const files = exampleFiles();
    const volume = await ProjectedVolume.create(`${SCRATCH}/config`, files);
    const monitor = monitorRules(node);
    const agent = await firstRules(node, volume, files, monitor);
    await packets(network);
    const changed = await addRange(network, volume, files, monitor);
    await refuseMistake(network, volume, changed, agent);
  } catch (error) {
    check(error instanceof Error ? error.message : String(error), false);
  }
  const { good, claims } = result();
  const verdict = good
    ? styleText('green', `all ${claims} claims checked`)
    : styleText('red', 'not everything was as claimed');
  process.stdout.write(
    `\n${verdict}; the lab goes with this process, the machine's own rules were never touched\n`,
  );
  return good;
}

async function firstRules(
  node: Box,
  volume: ProjectedVolume,
  files: Files,
  monitor: Monitor,
): Promise<Agent> {
  step(`The agent merges two owners' files: ${Object.keys(files).join(', ')}`);
  const started = performance.now();
  const agent = startAgent(node, volume.dir, SCRATCH);
  const at = await monitor.announced(CHAIN);
  const chain = await rules(node, CHAIN);
  const jumps = (await rules(node, 'POSTROUTING')).filter((rule) => rule.includes(`-j ${CHAIN}`));
  quote([...jumps, ...chain]);
  say(`in the kernel ${milliseconds(at - started)} after the agent's start`);
  check('one jump from POSTROUTING, last rule masquerades', jumps.length === 1 && masqueradesLast(chain));
  return agent;
}

async function packets(network: Network): Promise<void> {
  step('Packets from the pod, and the source address that arrives outside');
  const seen = await Promise.all(
    PACKETS.map(async (packet) => ({ packet, source: await source(network, packet.to) })),
  );
  table(
    ['destination', 'which is', 'arrives from', 'verdict', ''],
    seen.map(({ packet: { to, why, source: expected }, source }) => [
      to,
      why,
      `${source} ${source === 'pod' ? POD.IPv4 : NODE.IPv4}`,
      source === 'pod' ? 'not_masqueraded' : 'masqueraded',
      source === expected ? 'ok' : `NOT SO, expected ${expected}`,
    ]),
  );
  check(
    'each as the two files say',
    seen.every(({ packet, source }) => packet.source === source),
  );
}

async function addRange(
  network: Network,
  volume: ProjectedVolume,
  files: Files,
  monitor: Monitor,
): Promise<Files> {
  step('The cloud provider adds a range, kubelet swaps the volume');
  say(`+ ${ADDED.trim()}`);
  const changed = addToCloud(files, ADDED);
  const before = await rules(network.node, CHAIN);
  const renamed = await volume.swap(changed);
  const at = await monitor.announced(RANGE);
  const after = await rules(network.node, CHAIN);
  quote(difference(before, after));
  say(`in the kernel ${milliseconds(at - renamed)} after the rename of ..data (heard from \`nft monitor\`)`);
  check(
    'one rule more, none changed',
    difference(before, after).length === 1 && difference(after, before).length === 0,
  );
  check(
    `packet to ${NEWLY_INSIDE} now arrives from the pod`,
    (await source(network, NEWLY_INSIDE)) === 'pod',
  );
  return changed;
}

async function refuseMistake(
  network: Network,
  volume: ProjectedVolume,
  files: Files,
  agent: Agent,
): Promise<void> {
  step('The next change has a mistake in it: the agent refuses all of it');
  say(`+ ${BROKEN.trim()}`);
  const broken = addToCloud(files, BROKEN);
  const before = await rules(network.node, CHAIN);
  const logged = agent.log.length;
  await volume.swap(broken);
  const code = await agent.ended();
  const message = agent.log.slice(logged);
  quote(message);
  const line = broken['ip-masq-cloud']?.split('\n').findIndex((text) => `${text}\n` === BROKEN) ?? -1;
  check(
    'names file and line',
    message.some((text) => text.includes(`ip-masq-cloud:${line + 1}:`)),
  );
  check(`exit code ${code}`, code === 3);
  const after = await rules(network.node, CHAIN);
  check(
    `the chain is unchanged, all ${before.length} rules`,
    before.join() === after.join() && before.length > 0,
  );
  const sources = [await source(network, NEWLY_INSIDE), await source(network, '203.0.113.9')];
  check('packets flow as before', sources.join() === 'pod,node');
}

/** Each key of the two ConfigMaps is a file of the volume. */
function exampleFiles(): Record<string, string> {
  const files = ['config-cloud.yaml', 'config-operator.yaml'].map((name) => {
    const path = fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
    return (load(readFileSync(path, 'utf8')) as { readonly data: Readonly<Record<string, string>> }).data;
  });
  return Object.assign({}, ...files);
}

function addToCloud(files: Files, item: string): Record<string, string> {
  const texts = Object.fromEntries(Object.entries(files).map(([name, content]) => [name, String(content)]));
  const key = 'nonMasqueradeCIDRs:\n';
  return { ...texts, 'ip-masq-cloud': (texts['ip-masq-cloud'] ?? '').replace(key, `${key}${item}`) };
}

async function source(network: Network, destination: string): Promise<Source> {
  const { address } = await network.sourceSeen(destination);
  if (address === POD.IPv4) return 'pod';
  if (address === NODE.IPv4) return 'node';
  throw new Error(`a packet arrived from ${address}, which is neither the pod nor the node`);
}

function masqueradesLast(chain: readonly string[]): boolean {
  return chain.at(-1)?.includes('-j MASQUERADE') === true;
}

function difference(before: readonly string[], after: readonly string[]): readonly string[] {
  return after.filter((rule) => !before.includes(rule));
}

function milliseconds(duration: number): string {
  return `${duration.toFixed(0)} ms`;
}
