import type { Reply } from '../../../lib/fleet/ask.ts';
import type { Paint } from '../../../lib/text/colour.ts';
import { printable } from '../../../lib/text/escape.ts';
import { counted, truncated, truncatedText } from '../../../lib/text/words.ts';
import { EXIT } from '../exit.ts';

export interface NodeReport {
  readonly node: string;
  readonly code: number;
  readonly lines: readonly string[];
  /** Equal in nodes of one group. */
  readonly key: string;
  /** The addresses that were asked for, and to which the node shows no connection. */
  readonly unseen: readonly string[];
  /** The destinations for which it uses most ports, if they are asked for. */
  readonly uses: readonly { readonly share: number; readonly text: string }[];
  /** That of the config; null if it is not asked for, or not known. */
  readonly hash: string | null;
  /** The config that waits for the node's time in the rollout window; null if none waits. */
  readonly pending: { readonly hash: string; readonly appliedAt: string } | null;
  readonly pod: string | null;
  readonly daemonSet: string | null;
  readonly state: Reply['kind'];
  /** What programs are told; null in the text for people, which would only keep it in memory. */
  readonly answer: object | null;
}

/** How many nodes of a group are named, and how much of what they say is shown. */
const MOST_NAMES = 5;
const MOST_PODS = 3;
const MOST_LINES = 12;
const LONGEST_LINE = 2_000;
const MOST_USES = 20;
/** Where the logs or the events of the pod may say more. */
const HAS_LOGS: readonly Reply['kind'][] = ['down', 'silent', 'failed'];

/** The nodes in groups of those that say the same, the smallest first, and the sum of them. */
export function groupsText(reports: readonly NodeReport[], paint: Paint): string {
  // Map.groupBy needs Node.js 21.
  const groups = new Map<string, NodeReport[]>();
  for (const report of reports) {
    const group = groups.get(report.key);
    if (group === undefined) groups.set(report.key, [report]);
    else group.push(report);
  }
  const sorted = [...groups.values()].toSorted(
    (one, other) => one.length - other.length || BY_HARM.indexOf(worst(other)) - BY_HARM.indexOf(worst(one)),
  );
  const sum = `${sorted.map(({ length }) => length).join(' + ')} = ${counted(reports.length, 'node')}`;
  const areMixed = new Set(daemonSetsOf(reports)).size > 1;
  const texts = sorted.map((group) => `${groupText(group, areMixed, paint)}\n`);
  const notes = notesOf(reports).map((note) => `${shown(note)}\n`);
  const end = notes.length > 0 ? '\n' : '';
  return [...texts, ...notes, end, `${counted(sorted.length, 'group')}: ${sum}\n`].join('');
}

/** What concerns several groups, and is said once. */
function notesOf(reports: readonly NodeReport[]): readonly string[] {
  const blind = reports.filter(({ unseen }) => unseen.length > 0);
  const addresses = [...new Set(blind.flatMap(({ unseen }) => unseen))];
  const configs = new Set(reports.flatMap(({ hash }) => hash ?? [])).size;
  const uses = reports
    .flatMap(({ node, uses: own }) => own.map(({ share, text }) => ({ share, text: `${node}: ${text}` })))
    .toSorted((one, other) => other.share - one.share);
  const notes = uses
    .slice(0, MOST_USES)
    .map(({ share, text }) => `${(100 * share).toFixed(1).padStart(5)}%  ${text}`);
  for (const hash of new Set(reports.flatMap(({ pending }) => pending?.hash ?? []))) {
    const have = reports.filter((one) => one.hash === hash).length;
    const at = reports.flatMap(({ pending: one }) => (one?.hash === hash ? one.appliedAt : [])).toSorted();
    notes.push(`${have} of ${counted(reports.length, 'node')} have ${hash}, the last at ${at.at(-1)}`);
  }
  if (blind.length > 0)
    notes.push(
      `if ${truncatedText(addresses, MOST_NAMES, String)} is the address of a Service, its endpoint decides on ${blind.length === 1 ? 'the node' : `the ${blind.length} nodes`} where conntrack shows no connection to it: ask for the endpoint instead (kubectl get endpointslices -A)`,
    );
  if (configs > 1)
    notes.push(
      `${configs} configs: ip-masq-agent check PATH prints the hash of a list; ip-masq-agent render -f PATH --diff-to=PATH prints what differs between two lists`,
    );
  return notes;
}

function daemonSetsOf(reports: readonly NodeReport[]): readonly string[] {
  return reports.flatMap(({ daemonSet }) => daemonSet ?? []);
}

/** @param areMixed whether there are several DaemonSets */
function groupText(group: readonly NodeReport[], areMixed: boolean, paint: Paint): string {
  const names = truncatedText(group, MOST_NAMES, ({ node }) => printable(node));
  const colour = worst(group) === 0 ? 'green' : 'yellow';
  const [{ node, lines } = { node: '', lines: [] }] = group;
  const daemonSets = areMixed ? [...new Set(daemonSetsOf(group))] : [];
  const pods = group.flatMap(({ state, pod }) => (HAS_LOGS.includes(state) ? (pod ?? []) : []));
  const isEqual = new Set(group.map((one) => withoutDetails(one.lines.join('\n')))).size === 1;
  return [
    `${paint(colour, counted(group.length, 'node'))}: ${names}`,
    ...truncated(
      lines,
      MOST_LINES,
      (line) => `  ${shown(line)}`,
      (more) => `  … and ${more} more lines`,
    ),
    ...(isEqual ? [] : [`  (the answer of ${printable(node)}; the details of the others differ)`]),
    ...(daemonSets.length === 0 ? [] : [`  DaemonSet: ${truncatedText(daemonSets, MOST_NAMES, printable)}`]),
    ...(pods.length === 0 ? [] : [`  pods: ${truncatedText(pods, MOST_PODS, printable)}`]),
    '',
  ].join('\n');
}

/** Without what equal messages of agents differ by: times and processes. */
export function withoutDetails(message: string): string {
  return message.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z|\(process \d+\)/g, '');
}

function shown(line: string): string {
  return printable(line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line);
}

/** What a node can lead to, the least harm first: nothing found, something found, an invalid config, no answer. */
const BY_HARM: readonly number[] = [EXIT.ok, EXIT.different, EXIT.config, EXIT.system];

/** The exit code that says most of these; a code that only a pod's command knows is no answer. */
export function worstOf(codes: readonly number[]): number {
  const known = codes.map((code) => (BY_HARM.includes(code) ? code : EXIT.system));
  return BY_HARM.findLast((code) => known.includes(code)) ?? EXIT.ok;
}

export function worst(reports: readonly NodeReport[]): number {
  return worstOf(reports.map(({ code }) => code));
}
