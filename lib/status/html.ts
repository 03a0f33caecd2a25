import { escapeHtml } from '../text/escape.ts';

/** A table; every cell is escaped, and names its column for narrow screens that show no head. The first names its row. */
export function tableHtml(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '<p>none</p>';
  const row = ([first = '', ...cells]: readonly string[]) =>
    `<tr><th scope="row">${escapeHtml(first)}</th>${cells.map((cell, index) => cellHtml(head[index + 1], cell)).join('')}</tr>`;
  const names = head.map((name) => `<th>${escapeHtml(name)}</th>`).join('');
  return `<table>\n<thead><tr>${names}</tr></thead>\n<tbody>\n${rows.map(row).join('\n')}\n</tbody>\n</table>`;
}

function cellHtml(column: string | undefined, cell: string): string {
  return `<td data-name="${escapeHtml(column ?? '')}">${escapeHtml(cell)}</td>`;
}

/** Names and their values, all escaped. */
export function pairsHtml(pairs: readonly (readonly [name: string, value: string])[]): string {
  const items = pairs.map(([name, value]) => `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(value)}</dd>`);
  return `<dl>\n${items.join('\n')}\n</dl>`;
}
