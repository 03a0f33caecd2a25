import { type Member, members } from './json-node.ts';
import type { Node } from './strict-json.ts';

/** What new text takes over from the config as a whole. */
export interface Style {
  /** The config. */
  readonly text: string;
  readonly eol: string;
  /** One step of indentation. */
  readonly unit: string;
  /** Between a key and its value, with the white space around it. */
  readonly colon: string;
}

/** What new text takes over from its place. */
export interface Layout extends Style {
  /** Whether objects and lists that are not empty have a line for each item. */
  readonly broken: boolean;
  /** Of the line in which the text begins. */
  readonly indent: string;
}

/** Objects, lists and text of JSON. */
export type Tree = string | readonly Tree[] | { readonly [key: string]: Tree };

/** How the config is written, as its first member shows. */
export function styleOf(text: string, root: Node): Style {
  const style = { text, eol: /\r\n|\n|\r/.exec(text)?.[0] ?? '\n', unit: '  ', colon: ': ' };
  const first = members(root).at(0);
  if (first === undefined) return style;
  const [outer, inner] = [indentAt(style, root), indentAt(style, first.property)];
  const nested = inner.length > outer.length && inner.startsWith(outer);
  const unit = startsLine(style, first.property) && nested ? inner.slice(outer.length) : style.unit;
  return { ...style, unit, colon: colonLike(style, first) };
}

/** The colon as another member has it, if it has it on its line. */
export function colonLike(style: Style, like: Member | undefined): string {
  const colon = like && style.text.slice(end(like.key), like.value.offset);
  return colon !== undefined && /^[ \t]*:[ \t]*$/.test(colon) ? colon : style.colon;
}

/** The comma on a line: with a space behind it where the colon has one. */
export function commaOf({ colon }: Style): string {
  return /\s$/.test(colon) ? ', ' : ',';
}

/** The white space at the beginning of the line in which a node begins. */
export function indentAt({ text }: Style, node: Node): string {
  return /^[ \t]*/.exec(lineBefore(text, node))?.[0] ?? '';
}

/** Whether a node is the first of its line; some write the comma before it. */
export function startsLine({ text }: Style, node: Node): boolean {
  return /^[ \t]*,?[ \t]*$/.test(lineBefore(text, node));
}

/** Whether the text goes over several lines. */
export function hasLineBreak(text: string): boolean {
  return /[\r\n]/.test(text);
}

/** Where a node ends. */
export function end(node: Node): number {
  return node.offset + node.length;
}

/** New text. The line of `layout.indent` has begun. */
export function render(tree: Tree, layout: Layout): string {
  if (typeof tree === 'string') return JSON.stringify(tree);
  const inside = layout.broken ? { ...layout, indent: layout.indent + layout.unit } : layout;
  const texts = isList(tree)
    ? tree.map((item) => render(item, inside))
    : Object.entries(tree).map(([key, value]) => renderMember(key, value, inside));
  const [open, close] = isList(tree) ? '[]' : '{}';
  if (texts.length === 0 || !layout.broken) return `${open}${texts.join(commaOf(layout))}${close}`;
  const [line, innerLine] = [layout.eol + layout.indent, layout.eol + inside.indent];
  return `${open}${innerLine}${texts.join(`,${innerLine}`)}${line}${close}`;
}

/** A key and its value. */
export function renderMember(key: string, value: Tree, layout: Layout): string {
  return `${JSON.stringify(key)}${layout.colon}${render(value, layout)}`;
}

/** `Array.isArray` does not know readonly arrays. */
function isList(tree: Tree): tree is readonly Tree[] {
  return Array.isArray(tree);
}

function lineBefore(text: string, { offset }: Node): string {
  const before = text.slice(0, offset);
  return before.slice(Math.max(before.lastIndexOf('\n'), before.lastIndexOf('\r')) + 1);
}
