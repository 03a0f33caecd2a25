import { type FamilyState, intervalOf, type State } from '../agent/state.ts';
import { vanishedText } from '../config/config-file.ts';
import { isIncluded } from '../config/key.ts';
import { KEYS } from '../config/keys.ts';
import { formatProblem, type Problem } from '../config/problem.ts';
import type { EntryCount } from '../dataplane/dataplane.ts';
import { CONNECTIONS_KEEP } from '../policy/changes.ts';
import { BEGINNINGS, countsText } from '../policy/flow-counts.ts';
import { nodeAddressText, outcomeText } from '../policy/policy.ts';
import { escapeHtml } from '../text/escape.ts';
import { formatOrigin } from '../text/origin.ts';
import { readiness } from './health.ts';
import type { PacketCounts } from './packet-counts.ts';
import { type About, type AgentState, agentState, time } from './status-json.ts';

export interface Overview extends About {
  readonly state: State;
  readonly counts: PacketCounts;
  /** The version of the agent, in one line. */
  readonly version: string;
  readonly node: string;
}

/** The most entries of a family on the page. */
const MOST_ENTRIES = 500;

/** The style: it scales with the font size, fits a phone, and follows the light or dark setting. */
const STYLE = `:root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif;--line:light-dark(#d0d7de,#3d444d);--soft:light-dark(#57606a,#9aa4af)}
body{margin:0 auto;max-width:70rem;padding:1.5rem 1rem;background:light-dark(#fff,#0d1117);color:light-dark(#1f2328,#e6edf3);overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:0}h2{font-size:1.15rem;margin:2rem 0 .4rem}p{margin:.4rem 0}ul{margin:.4rem 0;padding-left:1.2rem}
thead th,dt,.soft{color:var(--soft)}.good{color:light-dark(#116329,#6fdd8b)}.bad{color:light-dark(#b00020,#ff8a80)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{border-bottom:1px solid var(--line);padding:.4rem 2rem .4rem 0;text-align:left;vertical-align:top}
thead th{font-size:.85rem}th:first-child{width:1%;white-space:nowrap}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.4rem 2rem;margin:.4rem 0}dd{margin:0}
pre{white-space:pre-wrap;margin:.6rem 0;padding:.8rem;border:1px solid var(--line);border-radius:.4rem}
@media(max-width:44rem){thead{display:none}tr{display:block;border-bottom:1px solid var(--line);padding:.4rem 0}
tbody th,td{display:block;border:0;padding:0}tbody th:first-child{white-space:normal;width:auto}td:empty{display:none}td::before{content:attr(data-name) ": ";color:var(--soft)}
dl{display:block}dd{margin-bottom:.4rem}}`;

export function statusPage(overview: Overview): string {
  const { state, node } = overview;
  const json = agentState(state, overview);
  const title = `ip-masq-agent on ${node}`;
  const parts = [
    `<h1>${escapeHtml(title)}</h1>`,
    stateHtml(overview, json),
    section('Syncs', tableHtml(['family', 'last sync', 'last change', 'because'], syncRows(json))),
    section('Last change of verdicts', verdictsHtml(state)),
    section('Config', configHtml(overview, json)),
    ...(state.invalid === undefined ? [] : [section('Errors', problemsHtml(state.invalid.error.problems))]),
    section('Conflicts and checks', problemsHtml(state.valid?.config.problems ?? [])),
    section('Connections against the config', flowsHtml(state)),
    section('What else does NAT here, in the order of packets', suspectsHtml(state)),
    ...[...state.families].map(([family, one]) =>
      section(`${family} entries`, entriesHtml(one, overview.counts.byFamily.get(family) ?? [])),
    ),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
${parts.join('\n')}
</body>
</html>
`;
}

/** The readiness with its reasons, the dataplane and the version. */
function stateHtml(
  { state, families, resyncInterval, version }: Overview,
  { dataplane }: AgentState,
): string {
  const checks = readiness(state, families, resyncInterval, performance.now());
  const bad = checks.filter(({ isGood }) => !isGood).map(({ name, reason }) => `${name}: ${reason}`);
  const ready = `${time(Date.now())}: ${bad.length === 0 ? 'ready' : `not ready, ${bad.join('; ')}`}`;
  const uses = dataplane === null ? [] : [`${dataplane.name} (${dataplane.reason})`];
  const runs = [...uses, version].join(', ');
  return `<p class="${bad.length === 0 ? 'good' : 'bad'}">${escapeHtml(ready)}</p>\n<p class="soft">${escapeHtml(runs)}</p>`;
}

function section(title: string, html: string): string {
  return `<section>\n<h2>${escapeHtml(title)}</h2>\n${html}\n</section>`;
}

function problemsHtml(problems: readonly Problem[]): string {
  if (problems.length === 0) return '<p>none</p>';
  const items = problems.map((one) => `<li>${escapeHtml(formatProblem(one))}</li>`);
  return `<ul>\n${items.join('\n')}\n</ul>`;
}

function moreHtml(more: number): string {
  return more > 0 ? `<p>… and ${more} more: see /configz</p>` : '';
}

function syncRows({ syncs }: AgentState): readonly (readonly string[])[] {
  return syncs.map(({ family, last, changed, found }) => [
    family,
    last ?? 'none yet',
    changed ?? '',
    found.join(', '),
  ]);
}

function verdictsHtml({ families }: State): string {
  const changes = [...families].flatMap(([family, { lastVerdicts: last }]) => {
    if (last === undefined) return [];
    const head = `${time(last.at)}, ${family}: ${last.summary}`;
    return `<p>${escapeHtml(head)}</p>\n<pre>${last.lines.map(escapeHtml).join('\n')}</pre>`;
  });
  if (changes.length === 0) return '<p>none since the agent started</p>';
  return [...changes, `<p class="soft">${CONNECTIONS_KEEP}</p>`].join('\n');
}

function configHtml({ state, resyncInterval: usual }: Overview, json: AgentState): string {
  const { hash, vanished, invalid } = json;
  const config = state.valid?.config;
  if (config === undefined || hash === null) return '<p class="bad">no valid config has been read</p>';
  const { configFileNames, resyncInterval } = config;
  const asked = resyncInterval === undefined ? '--resync-interval' : formatOrigin(resyncInterval.origin);
  const shown = KEYS.filter(({ onPage, setAt }) => isIncluded(onPage, setAt(config)));
  return pairsHtml([
    ['hash', hash],
    ['config files', configFileNames.join(', ') || 'none: the defaults apply'],
    ...vanished.map(
      ({ file, until }) => ['gone', vanishedText(file, invalid === null ? until : undefined)] as const,
    ),
    ...shown.map((key) => [key.name, key.text(config)] as const),
    ['resyncInterval', `${intervalOf(state, usual) / 1000} s, ${asked}`],
  ]);
}

function flowsHtml({ flows }: State): string {
  if (flows === undefined || flows.isOutdated) return '<p>not read</p>';
  const { at, counts, examples } = flows;
  if (counts.length === 0) return `<p>${time(at)}: none</p>`;
  const lines = BEGINNINGS.flatMap((since) => {
    const some = counts.filter((one) => one.since === since);
    return some.length === 0 ? [] : `${countsText(some)}, begun ${since} the agent's last change`;
  });
  const text = lines.map((line) => `<p>${escapeHtml(`${time(at)}: ${line}`)}</p>`).join('\n');
  return `${text}\n<pre>${examples.map(escapeHtml).join('\n')}</pre>`;
}

function suspectsHtml(state: State): string {
  const { suspects, unread } = state.suspects ?? { suspects: [], unread: ['not read yet'] };
  const lines = [...suspects, ...unread.map((what) => `not read: ${what}`)];
  if (lines.length === 0) return '<p>none found</p>';
  return `<ul>\n${lines.map((line) => `<li>${escapeHtml(line)}</li>`).join('\n')}\n</ul>`;
}

function entriesHtml({ policy }: FamilyState, counts: readonly EntryCount[]): string {
  const shown = policy.entries.slice(0, MOST_ENTRIES);
  // Counts may belong to an older policy: its entries are other objects with the same keys.
  const packets = new Map<string, bigint>();
  for (const count of counts)
    packets.set(countKey(count), (packets.get(countKey(count)) ?? 0n) + count.packets);
  const counted = (entry: EntryCount['entry']) =>
    String(packets.get(countKey({ entry, countedAs: entry?.verdict ?? 'masqueraded' })) ?? '');
  const elsewhere = String(packets.get(countKey({ entry: undefined, countedAs: 'not_masqueraded' })) ?? '');
  const rows = [
    ...shown.map((entry) => [
      entry.prefix.text,
      outcomeText(entry.verdict, entry.as && nodeAddressText(entry.as)),
      formatOrigin(entry.origin),
      counted(entry),
    ]),
    ['everything else', 'masqueraded', '', counted(undefined)],
    ...(policy.from.length > 0
      ? [['packets from sources that are left alone', 'not masqueraded', '', elsewhere]]
      : []),
  ];
  const table = tableHtml(['destination', 'verdict', 'asked for by', 'connections'], rows);
  return `${table}${moreHtml(policy.entries.length - shown.length)}`;
}

/** A key of an entry without its origin, because entries with equal keys have equal rules. */
function countKey({ entry, countedAs }: Pick<EntryCount, 'entry' | 'countedAs'>): string {
  return `${countedAs} ${entry?.prefix.text ?? 'everything else'}`;
}

/** A table with escaped cells. The first cell names its row; the others name their column for narrow screens. */
function tableHtml(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const row = ([first = '', ...cells]: readonly string[]) =>
    `<tr><th scope="row">${escapeHtml(first)}</th>${cells.map((cell, index) => cellHtml(head[index + 1], cell)).join('')}</tr>`;
  const names = head.map((name) => `<th>${escapeHtml(name)}</th>`).join('');
  return `<table>\n<thead><tr>${names}</tr></thead>\n<tbody>\n${rows.map(row).join('\n')}\n</tbody>\n</table>`;
}

function cellHtml(column: string | undefined, cell: string): string {
  return `<td data-name="${escapeHtml(column ?? '')}">${escapeHtml(cell)}</td>`;
}

/** A list of names and values, all escaped. */
function pairsHtml(pairs: readonly (readonly [name: string, value: string])[]): string {
  const items = pairs.map(([name, value]) => `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(value)}</dd>`);
  return `<dl>\n${items.join('\n')}\n</dl>`;
}
