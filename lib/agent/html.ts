import { printable } from '../config/origin.ts';

/** The text as it may stand anywhere in HTML, attribute values in quotes included. */
export function escapeHtml(text: string): string {
  return printable(text).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

/** A table; every cell is escaped. */
export function tableHtml(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const row = (cells: readonly string[], tag: 'th' | 'td') =>
    `<tr>${cells.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`;
  if (rows.length === 0) return '<p>none</p>';
  const body = rows.map((cells) => row(cells, 'td')).join('\n');
  return `<div class="wide"><table>\n<thead>${row(head, 'th')}</thead>\n<tbody>\n${body}\n</tbody>\n</table></div>`;
}
