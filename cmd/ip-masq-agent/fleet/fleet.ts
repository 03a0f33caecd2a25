import { setMaxListeners } from 'node:events';
import { parseAddress } from '../../../lib/cidr/address.ts';
import { formatProblem } from '../../../lib/config/problem.ts';
import { ask, inParallel, type Reply } from '../../../lib/fleet/ask.ts';
import { writeBundle } from '../../../lib/fleet/bundle.ts';
import { type FleetNode, listNodes } from '../../../lib/fleet/nodes.ts';
import { readFile } from '../../../lib/inputs/input.ts';
import { printable, quote } from '../../../lib/text/escape.ts';
import { counted } from '../../../lib/text/words.ts';
import type { Args } from '../command.ts';
import type { FLEET_FLAGS } from '../command-flags.ts';
import { EXIT, UsageError } from '../exit.ts';
import { print, printResult } from '../print.ts';
import { stopSignal } from '../signals.ts';
import { groupsText, type NodeReport, withoutDetails, worst, worstOf } from './groups.ts';
import { SUMMARIES, type Summary } from './summaries.ts';

export async function fleet(args: Args<typeof FLEET_FLAGS>): Promise<number> {
  const { flags } = args;
  if (flags.parallel === 0) throw new UsageError('--parallel=0 asks no node: write 1 or more');
  const asked = args.operands[0] === 'bundle' ? bundleOf(args) : questionOf(args);
  const isText = flags.output === 'text';
  // Each process of kubectl listens; Node.js warns of more than ten.
  setMaxListeners(0, stopSignal);
  const kubectl = {
    flags: [
      `--namespace=${flags.namespace}`,
      ...(flags.context === '' ? [] : [`--context=${flags.context}`]),
    ],
    timeoutMs: flags.timeout,
    signal: stopSignal,
  };
  const assertions = flags.expect === '' ? undefined : await assertionsIn(flags.expect);
  const nodes = await listNodes(kubectl, flags.selector, flags['node-selector']);
  if ('file' in asked) {
    await writeBundle(asked.file, kubectl, nodes, asked.addresses, flags.parallel);
    const what = `${printable(asked.file)}: ${counted(nodes.length, 'node')}`;
    print(`${what}; it names addresses and programs of your network: read it before you give it away\n`);
    return EXIT.ok;
  }
  const { name, words } = asked;
  const reports = new Map<string, NodeReport>();
  await inParallel(nodes, flags.parallel, async (node) => {
    const report = reportOf(node, await ask(kubectl, node, words, assertions), SUMMARIES[name]);
    reports.set(node.name, isText ? { ...report, answer: null } : report);
    showProgress(`${reports.size} of ${nodes.length}`);
  });
  showProgress('');
  const told = nodes.flatMap(({ name }) => reports.get(name) ?? []);
  // What is only for the groups of the text is left out.
  const json = { command: name, nodes: told.map(({ key, unseen, uses, hash, pending, ...shown }) => shown) };
  return printResult(flags.output, worst(told), json, (paint) => groupsText(told, paint));
}

/** The text of the file, which is on this machine: each agent reads it from its standard input. */
async function assertionsIn(path: string): Promise<string> {
  const file = await readFile(path);
  if ('text' in file) return file.text;
  throw new UsageError(`--expect: ${formatProblem(file)}`);
}

/** The file to write for a bug report, and the addresses to explain in it. */
function bundleOf({ operands: [, file = '', ...addresses], flags }: Args<typeof FLEET_FLAGS>) {
  if (!file.endsWith('.tgz'))
    throw new UsageError('fleet bundle needs the name of the file to write, such as agents.tgz');
  if (flags.live || flags.expect !== '' || flags.output !== 'text')
    throw new UsageError('fleet bundle takes no --live, no --expect and no --output');
  requireAddresses(addresses);
  return { file, addresses };
}

/** The command for the agents, and its words. */
function questionOf({ operands: [command = '', ...operands], flags }: Args<typeof FLEET_FLAGS>) {
  const names = Object.keys(SUMMARIES) as (keyof typeof SUMMARIES)[];
  const name = names.find((one) => one === command);
  if (name === undefined)
    throw new UsageError(`fleet does not know ${quote(command)}: write one of ${names.join(', ')}, bundle`);
  const words = [
    name,
    ...(flags.live ? ['--live'] : []),
    ...(flags.expect === '' ? [] : ['--expect=/dev/stdin']),
    '--output=json',
    ...operands,
  ];
  if (name !== 'check' && flags.expect !== '')
    throw new UsageError(`fleet ${name} takes no --expect, which is for fleet check`);
  if (name !== 'explain' && (flags.live || operands.length > 0))
    throw new UsageError(`fleet ${name} takes no address and no --live, which are for fleet explain`);
  if (name === 'explain' && operands.length === 0)
    throw new UsageError('fleet explain needs an address such as 10.1.2.3');
  requireAddresses(operands);
  return { name, words };
}

function requireAddresses(texts: readonly string[]): void {
  const wrong = texts.find((text) => parseAddress(text) === undefined);
  if (wrong !== undefined)
    throw new UsageError(`${quote(wrong)} is not an IP address: write one such as 10.1.2.3 or fd00::1`);
}

function reportOf(
  { name: node, pod }: FleetNode,
  reply: Reply,
  summarise: (answer: object) => Summary,
): NodeReport {
  const common = {
    node,
    pod: pod?.name ?? null,
    daemonSet: pod?.daemonSet || null,
    state: reply.kind,
    code: pod?.down?.exitCode === EXIT.config ? EXIT.config : EXIT.system,
    unseen: [],
    uses: [],
    hash: null,
    pending: null,
  };
  if (reply.kind !== 'answered') {
    // Messages name pods, addresses, times and processes. How an agent has ended differs by other numbers, such as exit codes and lines.
    const said = reply.lines.join('\n');
    const text = pod === undefined ? said : said.replaceAll(pod.name, '');
    const key = reply.kind === 'down' ? withoutDetails(text) : text.replace(/\d+/g, '');
    return { ...common, answer: null, lines: reply.lines, key };
  }
  const { answer, notes } = reply;
  try {
    const { lines, key = lines.join('\n'), ...more } = summarise(answer);
    const end = lastEnd(pod);
    const ends = withoutDetails([...end, ...notes].join('\n'));
    const all = { lines: [...end, ...lines, ...notes].map(String), key: `${key}\n${ends}` };
    const code = worstOf([reply.code, ...(pod?.down === undefined ? [] : [common.code])]);
    return { ...common, code, answer, ...all, ...more };
  } catch {
    // An answer from outside can break what reads it in any way.
    const lines = ['this version of fleet does not know the form of the answer'];
    return { ...common, state: 'failed', code: EXIT.system, answer: null, lines, key: 'form' };
  }
}

/** How the agent has ended, if its pod is not ready: while it waits for another agent to end, that one answers in its place. */
function lastEnd(pod: FleetNode['pod']): readonly string[] {
  if (pod?.down === undefined) return [];
  return [
    'its pod is not ready; how its agent ended last:',
    ...pod.down.lines,
    'what answers there now, perhaps another agent:',
  ];
}

/** Writes over the line on a terminal; nothing elsewhere. */
function showProgress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}
