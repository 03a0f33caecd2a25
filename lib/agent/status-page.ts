import { formatOrigin } from '../config/origin.ts';
import { formatProblem } from '../config/problem.ts';
import type { EntryCount } from '../dataplane/dataplane.ts';
import type { Endpoints } from './endpoints.ts';
import { configHash } from './fingerprint.ts';
import { describeForeign, foreignEvidence } from './foreign.ts';
import { escapeHtml, tableHtml } from './html.ts';
import { countKey } from './packet-counts.ts';
import type { FamilyStatus } from './status.ts';

/** Entries that the page shows: a page of 100,000 helps nobody. */
const MOST_ENTRIES = 500;

/** Grows with the reader's letters, fits a phone, and follows the reader's choice of light or dark. */
const STYLE = `:root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif;--line:light-dark(#d0d7de,#3d444d);--soft:light-dark(#57606a,#9aa4af)}
body{margin:0 auto;max-width:70rem;padding:1.5rem 1rem;background:light-dark(#fff,#0d1117);color:light-dark(#1f2328,#e6edf3);overflow-wrap:anywhere}
h1{font-size:1.6rem;margin:0}h1+p{color:var(--soft);margin:.2rem 0}h2{font-size:1.15rem;margin:2rem 0 .4rem}
table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid var(--line);padding:.4rem .8rem .4rem 0;text-align:left;vertical-align:top}
th{color:var(--soft);font-size:.85rem}td{font-variant-numeric:tabular-nums}td:first-child{font-weight:600}
pre{overflow-x:auto;padding:.8rem;border:1px solid var(--line);border-radius:.4rem}.bad{color:light-dark(#b00020,#ff8a80)}
@media(max-width:40rem){thead{display:none}tr{display:block;border-bottom:1px solid var(--line);padding:.4rem 0}td{display:block;border:0;padding:0}td:empty{display:none}
td+td::before{content:attr(data-name) ": ";color:var(--soft)}}`;

/** One page for a person: what is applied, why, and what is odd. */
export function statusPage(endpoints: Endpoints): string {
  const { status, version } = endpoints;
  const parts = [
    `<h1>ip-masq-agent</h1>\n<p>${escapeHtml(version)}${status.dataplane === undefined ? '' : `, ${escapeHtml(status.dataplane.name)}`}</p>`,
    section('Syncs', tableHtml(['family', 'last sync', 'last change', 'found then'], syncRows(endpoints))),
    section('Config', configHtml(endpoints)),
    section('Conflicts', listHtml((status.loaded?.config?.conflicts ?? []).map(formatProblem))),
    section('Rules of others', foreignHtml(endpoints)),
    ...[...status.families].map(([family, one]) =>
      section(`${family} entries`, entriesHtml(one, endpoints.counts.entries(family))),
    ),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ip-masq-agent</title>
<style>${STYLE}</style>
</head>
<body>
${parts.join('\n')}
</body>
</html>
`;
}

function section(title: string, html: string): string {
  return `<section>\n<h2>${escapeHtml(title)}</h2>\n${html}\n</section>`;
}

function listHtml(lines: readonly string[]): string {
  if (lines.length === 0) return '<p>none</p>';
  return `<ul>\n${lines.map((line) => `<li>${escapeHtml(line)}</li>`).join('\n')}\n</ul>`;
}

function syncRows({ status, families }: Endpoints): readonly (readonly string[])[] {
  return families.map((family) => {
    const one = status.families.get(family);
    if (one === undefined) return [family, 'none yet', '', ''];
    return [family, time(one.lastSuccess), time(one.lastChange), one.lastFound.join(', ')];
  });
}

function configHtml({ status: { loaded } }: Endpoints): string {
  const config = loaded?.config;
  if (config === undefined) return '<p class="bad">no valid config has been read</p>';
  const rows = [
    ['hash', configHash(config)],
    ['sources', config.sources.join(', ') || 'none: the defaults apply'],
    ['masqLinkLocal', flag(config.masqLinkLocal)],
    ['masqLinkLocalIPv6', flag(config.masqLinkLocalIPv6)],
    ...(config.resyncInterval === undefined
      ? []
      : [
          [
            'resyncInterval',
            `${config.resyncInterval.value} ms, ${formatOrigin(config.resyncInterval.origin)}`,
          ],
        ]),
  ];
  return tableHtml(['what', 'value'], rows);
}

function flag({ value, origin }: { value: boolean; origin: Parameters<typeof formatOrigin>[0] }): string {
  return `${value}, ${formatOrigin(origin)}`;
}

function foreignHtml({ status }: Endpoints): string {
  if (status.foreign.length === 0) return '<p>none found</p>';
  return status.foreign
    .map((finding) => {
      const evidence = foreignEvidence(finding).map(escapeHtml).join('\n');
      return `<p class="bad">${escapeHtml(`${finding.family}: ${describeForeign(finding)}`)}</p>\n<pre>${evidence}</pre>\n<p>${escapeHtml(finding.remedy)}</p>`;
    })
    .join('\n');
}

function entriesHtml({ policy }: FamilyStatus, counts: readonly EntryCount[]): string {
  const shown = policy.entries.slice(0, MOST_ENTRIES);
  const more = policy.entries.length - shown.length;
  // Counts are read with a policy that was compiled before: its entries are others, and mean the same.
  const packets = new Map(counts.map((count) => [countKey(count), String(count.packets)]));
  const counted = (entry: EntryCount['entry']) =>
    packets.get(countKey({ entry, verdict: entry?.verdict ?? 'masquerade' })) ?? '';
  const rows = [
    ...shown.map((entry) => [
      entry.prefix.text,
      entry.verdict === 'return' ? 'not masqueraded' : 'masqueraded',
      formatOrigin(entry.origin),
      counted(entry),
    ]),
    ['everything else', 'masqueraded', '', counted(undefined)],
  ];
  const note = more > 0 ? `<p>… and ${more} more: see /configz</p>` : '';
  return `${tableHtml(['destination', 'verdict', 'asked for by', 'connections'], rows)}${note}`;
}

function time(at: number | undefined): string {
  return at === undefined ? '' : new Date(at).toISOString().replace(/\.\d+Z$/, 'Z');
}
