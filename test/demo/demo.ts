/**
 * Shows the agent at work with real packets: `make demo`. Root is not needed, and the machine's own rules and network stay as they
 * are: all happens in network namespaces that go with this process.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { load } from 'js-yaml';
import { createNode } from '../e2e/support.ts';
import { watchGenerations } from '../lab/generations.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { check, quote, result, say, step, table } from './show.ts';

const CHAIN = 'IP-MASQ-AGENT';
const PATIENCE_MS = 10_000;

const INSIDE = '10.230.4.5';
const NEWLY_INSIDE = '10.64.7.8';
const INTERNET = '203.0.113.9';

const PACKETS = [
  { to: INSIDE, why: 'virtual network (cloud)', expected: 'pod' },
  { to: '172.16.1.1', why: 'data centre (operator)', expected: 'pod' },
  { to: '172.20.99.7', why: 'exception inside it (operator)', expected: 'node' },
  { to: NEWLY_INSIDE, why: 'no range yet', expected: 'node' },
  { to: INTERNET, why: 'the internet', expected: 'node' },
] as const;

/** A range that the cloud provider adds, and the same with a mistake in it. */
const ADDED = '  - 10.64.0.0/16    # a peered network\n';
const BROKEN = '  - 10.64.0.1/10    # a wider one, mistyped\n';

const files = { ...exampleFile('reconciled'), ...exampleFile('custom') };

await using node = await createNode();
const { promise: interrupted, resolve: interrupt } = Promise.withResolvers<boolean>();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupt(false));
process.exitCode = (await Promise.race([tell(), interrupted])) ? 0 : 1;

/** Tells the whole story, and checks every claim. Returns whether all were so. */
async function tell(): Promise<boolean> {
  step('A private lab: three network namespaces, joined by links');
  await using network = await createNetwork(node.box);
  await using generations = await watchGenerations(node.box);
  say(`pod ${POD.IPv4}  --  node ${NODE.IPv4}  --  outside, which answers on every address`);

  step(`The agent merges two owners' files: ${Object.keys(files).join(', ')}`);
  const volume = await node.volume(files);
  const started = performance.now();
  const agent = node.start('--backend=iptables', '--iptables-mode=nft', '--log-format=text');
  say(`in the kernel ${await written(started)} after the agent's start`);
  const chain = await rules();
  const jumps = (await rules('POSTROUTING')).filter((rule) => rule.includes(`-j ${CHAIN}`));
  quote([...jumps, ...chain]);
  check(
    'one jump from POSTROUTING, last rule masquerades',
    jumps.length === 1 && chain.at(-1)?.includes('-j MASQUERADE') === true,
  );

  step('Packets from the pod, and the source address that arrives outside');
  const seen = await sources(...PACKETS.map(({ to }) => to));
  table(
    ['destination', 'which is', 'arrives from', 'verdict', ''],
    PACKETS.map(({ to, why, expected }, index) => [
      to,
      why,
      `${seen[index]} ${seen[index] === 'pod' ? POD.IPv4 : NODE.IPv4}`,
      seen[index] === 'pod' ? 'not_masqueraded' : 'masqueraded',
      seen[index] === expected ? 'ok' : `NOT SO, expected ${expected}`,
    ]),
  );
  check('each as the two files say', seen.join() === PACKETS.map(({ expected }) => expected).join());

  step('The cloud provider adds a range, kubelet swaps the volume');
  say(`+ ${ADDED.trim()}`);
  generations.drain();
  say(`in the kernel ${await written(await volume.swap(withItems(ADDED)))} after the rename of ..data`);
  const changed = await rules();
  quote(changed.filter((rule) => !chain.includes(rule)));
  check(
    'one rule more, none changed',
    changed.length === chain.length + 1 && chain.every((rule) => changed.includes(rule)),
  );
  check(`packet to ${NEWLY_INSIDE} now arrives from the pod`, (await sources(NEWLY_INSIDE)).join() === 'pod');

  step('The next change has a mistake in it: the agent refuses all of it');
  say(`+ ${BROKEN.trim()}`);
  const logged = agent.log().length;
  const broken = withItems(BROKEN, ADDED);
  await volume.swap(broken);
  const end = await Promise.race([agent.ended, delay(PATIENCE_MS, undefined, { ref: false })]);
  const message = agent.log().slice(logged);
  quote(message.trimEnd().split('\n'));
  const line = broken['ip-masq-cloud'].split('\n').indexOf(BROKEN.trimEnd());
  check('names file and line', message.includes(`ip-masq-cloud:${line + 1}:`));
  check(`exit code ${end?.code}`, end?.code === 3);
  check(`the chain is unchanged, all ${changed.length} rules`, (await rules()).join() === changed.join());
  check('packets flow as before', (await sources(NEWLY_INSIDE, INTERNET)).join() === 'pod,node');
  return result();

  /** How long it was until the kernel had the rules, which it announces. */
  async function written(since: number): Promise<string> {
    return `${((await generations.next()).at - since).toFixed(0)} ms`;
  }

  /** Whose address packets of the pod have outside. */
  async function sources(...destinations: readonly string[]): Promise<readonly string[]> {
    const names: Readonly<Record<string, string>> = { [POD.IPv4]: 'pod', [NODE.IPv4]: 'node' };
    return (await network.sourcesSeen(destinations)).map(({ address }) => names[address] ?? address);
  }
}

async function rules(name = CHAIN): Promise<readonly string[]> {
  const listing = await node.iptables('-S', name);
  return listing.split('\n').filter((rule) => rule.startsWith('-A '));
}

/** Each key of the ConfigMap is a file of the volume. */
function exampleFile(name: 'reconciled' | 'custom') {
  const text = readFileSync(new URL(`../../examples/config-${name}.yaml`, import.meta.url), 'utf8');
  return (load(text) as { readonly data: Readonly<Record<string, string>> }).data;
}

/** The files, with more items in the list of the cloud. */
function withItems(...items: readonly string[]) {
  const key = 'nonMasqueradeCIDRs:\n';
  const cloud = (files['ip-masq-cloud'] ?? '').replace(key, key + items.join(''));
  return { ...files, 'ip-masq-cloud': cloud };
}
