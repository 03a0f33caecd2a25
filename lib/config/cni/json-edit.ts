import { member, members, requireString, requireType } from './json-node.ts';
import {
  colonLike,
  commaOf,
  end,
  hasLineBreak,
  indentAt,
  type Layout,
  render,
  renderMember,
  type Style,
  startsLine,
  type Tree,
} from './json-style.ts';
import type { Node } from './strict-json.ts';

/** Text in the place of other text. */
export interface Edit {
  readonly offset: number;
  readonly length: number;
  readonly content: string;
}

/** @param edits in the order of the text, none within another */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  return edits.reduceRight(
    (now, { offset, length, content }) => now.slice(0, offset) + content + now.slice(offset + length),
    text,
  );
}

/** Sets a key to a list of texts, in the form that its list has. */
export function setStrings(style: Style, object: Node, key: string, strings: readonly string[]): Edit {
  const list = member(object, key)?.value;
  if (list?.type !== 'array') return setMember(style, object, key, strings);
  const written = list.children?.map((item) => requireString(item, `an item of "${key}"`)) ?? [];
  const same = written.length === strings.length && written.every((text, index) => text === strings[index]);
  return replace(list, same ? style.text.slice(list.offset, end(list)) : listText(style, list, strings));
}

/**
 * Sets a key that is absent or null.
 *
 * @throws {CniError} where it has a value
 */
export function setMember(style: Style, object: Node, key: string, tree: Tree): Edit {
  const found = member(object, key);
  if (found === undefined) return appendMember(style, object, key, tree);
  const { property, value } = found;
  if (value.type !== 'null') requireType(value, 'array', `"${key}"`);
  const broken = startsLine(style, property);
  const layout = { ...style, colon: colonLike(style, found), broken, indent: indentAt(style, property) };
  return replace(value, render(tree, layout));
}

/** Adds an item behind the last one of a list, written and set apart as that one is. */
export function appendItem(style: Style, list: Node, tree: Tree): Edit {
  const last = list.children?.at(-1);
  if (last === undefined) return replace(list, render([tree], emptyLayout(style, list)));
  const colon = colonLike(style, members(last).at(0));
  const broken = hasLineBreak(style.text.slice(last.offset, end(last)));
  const layout = { ...style, colon, broken, indent: indentAt(style, last) };
  return insertBehind(layout, list, last, render(tree, layout));
}

function appendMember(style: Style, object: Node, key: string, tree: Tree): Edit {
  const last = members(object).at(-1);
  if (last === undefined) return replace(object, render({ [key]: tree }, emptyLayout(style, object)));
  const { property } = last;
  const broken = startsLine(style, property);
  const layout = { ...style, colon: colonLike(style, last), broken, indent: indentAt(style, property) };
  return insertBehind(layout, object, property, renderMember(key, tree, layout));
}

/** For the first item of an object or a list. */
function emptyLayout(style: Style, container: Node): Layout {
  const { parent } = container;
  const broken =
    hasLineBreak(style.text.slice(container.offset, end(container))) ||
    startsLine(style, parent?.type === 'property' ? parent : container);
  return { ...style, broken, indent: indentAt(style, container) };
}

/** What stands between neighbours. */
function separators(text: string, { children = [] }: Node): readonly string[] {
  return children.slice(0, -1).map((node, index) => text.slice(end(node), children[index + 1]?.offset));
}

/** What parts a second item from the first one. */
function firstSeparator(layout: Layout, container: Node, first: Node): string {
  const lead = layout.text.slice(container.offset + 1, first.offset);
  if (hasLineBreak(lead)) return `,${layout.eol}${layout.indent}`;
  return lead === '' ? commaOf(layout) : ', ';
}

/** The list on one line or on several, indented and parted as its items are. */
function listText(style: Style, list: Node, strings: readonly string[]): string {
  const [first, last] = [list.children?.at(0), list.children?.at(-1)];
  const text = style.text.slice(list.offset, end(list));
  const layout = { ...style, broken: hasLineBreak(text), indent: indentAt(style, first ?? list) };
  if (strings.length === 0 || first === undefined || last === undefined) return render(strings, layout);
  const between = separators(style.text, list);
  const separator = between.find(hasLineBreak) ?? between.at(0) ?? firstSeparator(layout, list, first);
  const items = strings.map((item) => JSON.stringify(item)).join(separator);
  return `${style.text.slice(list.offset, first.offset)}${items}${style.text.slice(end(last), end(list))}`;
}

function insertBehind(layout: Layout, container: Node, last: Node, text: string): Edit {
  const separator = separators(layout.text, container).at(-1) ?? firstSeparator(layout, container, last);
  return { offset: end(last), length: 0, content: separator + text };
}

function replace({ offset, length }: Node, content: string): Edit {
  return { offset, length, content };
}
