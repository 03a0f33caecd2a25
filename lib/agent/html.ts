import { printable } from '../config/origin.ts';

/** The text as it may stand anywhere in HTML, attribute values in quotes included. */
export function escapeHtml(text: string): string {
  return printable(text).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

/** A table; every cell is escaped, and names its column for narrow screens that show no head. */
export function tableHtml(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (row: readonly string[]) =>
    row.map((cell, index) => `<td data-name="${escapeHtml(head[index] ?? '')}">${escapeHtml(cell)}</td>`);
  if (rows.length === 0) return '<p>none</p>';
  const body = rows.map((row) => `<tr>${cells(row).join('')}</tr>`).join('\n');
  return `<table>\n<thead><tr>${head.map((name) => `<th>${escapeHtml(name)}</th>`).join('')}</tr></thead>\n<tbody>\n${body}\n</tbody>\n</table>`;
}
