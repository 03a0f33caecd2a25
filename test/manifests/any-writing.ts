import fc from 'fast-check';
import { CIDR_KEYS } from '../../lib/config/keys.ts';
import { crowdedPrefix, FAMILIES } from '../unit/cidr/arbitrary.ts';

/** Configs in the ways in which people write them: blocks, brackets, JSON, quotes, comments, blanks anywhere. */
export function anyWriting(): fc.Arbitrary<string> {
  const newline = fc.constantFrom('\n', '\n', '\r\n');
  return fc
    .record({
      style: fc.constantFrom('block', 'flow', 'json'),
      newline,
      keys: fc.uniqueArray(key(), SELECTOR),
    })
    .chain(({ style, newline, keys }) => {
      const lines = fc.tuple(...keys.map(({ name, value }) => entry(style, name, value)));
      return lines.map((entries) => write(style, entries.flat(), newline));
    });
}

/** A network, or what an item of masqueradeAddresses says. */
type Item = string | { readonly destination: string; readonly address: string };
type Value = string | readonly Item[];

const SELECTOR = { maxLength: 6, selector: ({ name }: { readonly name: string }) => name.toLowerCase() };

function key(): fc.Arbitrary<{ readonly name: string; readonly value: Value }> {
  const cidrs = fc.array(
    fc.oneof(...FAMILIES.map(crowdedPrefix)).map(({ text }) => text),
    { maxLength: 4 },
  );
  const addresses = fc.uniqueArray(
    fc
      .constantFrom(...FAMILIES)
      .chain((family) => fc.record({ destination: crowdedPrefix(family), address: crowdedPrefix(family) }))
      .map(({ destination, address }) => ({ destination: destination.text, address: address.text })),
    { maxLength: 3, selector: ({ destination }) => destination },
  );
  const of = (names: readonly string[], value: fc.Arbitrary<Value>) =>
    fc.record({ name: fc.constantFrom(...names, ...names.map((name) => name.toUpperCase())), value });
  return fc.oneof(
    of(CIDR_KEYS, cidrs),
    of(['masqueradeAddresses'], addresses),
    of(['masqLinkLocal', 'masqLinkLocalIPv6'], fc.constantFrom('true', 'false', 'yes', 'off')),
    of(['resyncInterval'], fc.constantFrom('60s', '1m30s', '1.5h', '"60s"')),
    of(['cidrLimit'], fc.constantFrom('0', '70', '0x40')),
  );
}

/** Text that people put behind `#`. */
const COMMENT = fc.constantFrom(
  ...['', '', ' # 10.0.0.1/8', ' # see: docs/a.md', '\t# "not: a key", [10.0.0.1/8]', ' #% &x *y !z \\'],
);

const BLANK = fc.constantFrom('', ' ', '  ');

function entry(style: string, name: string, value: Value): fc.Arbitrary<readonly string[]> {
  const items = typeof value === 'string' ? [] : value;
  return fc
    .record({
      quote: fc.constantFrom('', '', '"', "'"),
      before: BLANK,
      comments: fc.array(COMMENT, { minLength: items.length + 1, maxLength: items.length + 1 }),
      indent: fc.constantFrom('', '  ', '      '),
      dash: fc.constantFrom('- ', '-   ', '-\t'),
    })
    .map(({ quote, before, comments, indent, dash }) => {
      const marks = style === 'json' ? '"' : quote;
      const quoted = items.map((item) => {
        if (typeof item === 'string') return `${marks}${item}${marks}`;
        const { destination, address } = item;
        const pairs = Object.entries(indent === '' ? { destination, address } : { address, destination });
        return pairs.map(([name, value]) => `${marks}${name}${marks}: ${marks}${value}${marks}`);
      });
      const inBrackets = quoted.map((item) => (typeof item === 'string' ? item : `{${item.join(', ')}}`));
      const head = `${marks}${name}${marks}${before}:`;
      if (typeof value === 'string') return [`${head} ${value}${style === 'block' ? comments[0] : ''}`];
      if (style !== 'block' || items.length === 0)
        return [`${head} [${inBrackets.join(before === '' ? ',' : ', ')}]`];
      return [
        `${head}${comments[0]}`,
        ...quoted.flatMap((item, i) => {
          const [first, ...others] = typeof item === 'string' ? [item] : item;
          const below = indent + dash.replace(/./g, ' ');
          return [
            `${indent}${dash}${first}${comments[i + 1]}`,
            ...others.map((other) => `${below}${other}${comments[i + 1]}`),
          ];
        }),
      ];
    });
}

function write(style: string, entries: readonly string[], newline: string): string {
  if (style === 'block') return entries.map((line) => line + newline).join('');
  const indent = style === 'json' ? '\t' : ' ';
  return `{${newline}${entries.map((line) => indent + line).join(`,${newline}`)}${newline}}${newline}`;
}
