import type { Family } from '../cidr/address.ts';
import { type RangeSet, rangeSet } from '../cidr/ranges.ts';
import { decode } from '../dataplane/nftables/decode.ts';
import { VERDICT_REGISTER } from '../dataplane/nftables/encode.ts';
import { type Meaning, outcomeOf, testOf } from '../dataplane/nftables/meaning.ts';
import { KEYS, type MatchKey, type Statement, statementText } from '../dataplane/nftables/statement.ts';
import { type Outcome, type Rule, ruleOf, type Test } from '../dataplane/rule.ts';
import type { ChainName } from '../netlink/change.ts';
import type { Elements } from '../netlink/elements.ts';
import { TABLE_FAMILIES, type TableFamily } from '../netlink/messages.ts';
import type { RuleReply } from '../netlink/replies.ts';
import { printable } from '../text/escape.ts';

/** A set or map, whose elements are those of the key in a rule. */
export interface SetToRead {
  readonly name: string;
  readonly key: MatchKey | undefined;
}

export interface ReadSet extends SetToRead {
  readonly elements: Elements;
  readonly keyBytes: number;
}

export interface NftContext {
  /** The family of the packets. */
  readonly family: Family;
  readonly place: ChainName<TableFamily>;
  readonly sets: ReadonlyMap<string, ReadSet>;
}

/** nft(8) and the kernel call sets so that stand in a rule itself. */
const ANONYMOUS = /^__(?:set|map)\d+$/;

/** The sets that a rule shows in its text, or that decide where it sends a packet to a destination. */
export function setsIn(statements: readonly Statement[]): readonly SetToRead[] {
  return statements.flatMap((one) => {
    if (one.kind === 'vmap') return [{ name: one.map, key: one.key }];
    if (one.kind !== 'match' || !('set' in one)) return [];
    const isWanted = / daddr$/.test(one.key) || ANONYMOUS.test(one.set);
    return isWanted ? [{ name: one.set, key: one.key }] : [];
  });
}

/** A rule of nftables as packets of one family meet it. A verdict map makes one rule of each of its elements. */
export function readNftRule(
  context: NftContext,
  rule: RuleReply,
  statements: readonly Statement[],
): readonly Rule[] {
  const { family, place } = context;
  const text = ruleText(context, rule, statements);
  const meaning: Meaning = {
    family,
    tableAndChain: `${place.table} ${place.chain}`,
    addressesIn: (name) => addressesIn(family, context.sets.get(name)),
  };
  const tests = statements.map((one) => readableTest(context, testOf(meaning, one)));
  const command = deletion(place, rule);
  const make = (ruleText: string, more: readonly Test[], outcome: Outcome | undefined): Rule => {
    return { ...ruleOf(family, ruleText, [...tests, ...more], outcome ?? { kind: 'goes on' }), ...command };
  };
  const map = statements.find((one) => one.kind === 'vmap');
  if (map === undefined) {
    const outcome = statements.map((one) => outcomeOf(family, one)).find((one) => one !== undefined);
    return [make(text, [], outcome)];
  }
  const { key, keyText } = map;
  const { ranges = [], otherVerdict } = context.sets.get(map.map)?.elements ?? {};
  const element = (value: string, test: Test, verdict: Element['verdict']) => {
    const [decided] = decode(family, [{ name: 'immediate', to: VERDICT_REGISTER, verdict }]);
    const words = decided && `${text} (${value} : ${statementText(family, decided)})`;
    return make(words ?? text, [test], decided && outcomeOf(family, decided));
  };
  const others = { text: `${keyText} in no other element`, isSteady: false };
  return [
    ...ranges.map((one) => {
      const value = elementText(key, one);
      const unknown = { text: `${keyText} ${value}`, isSteady: false };
      const known = key && testOf(meaning, { kind: 'match', key, range: elementRange(key, one) });
      return element(value, key === undefined ? unknown : known, one.verdict);
    }),
    ...(otherVerdict === undefined ? [] : [element('*', others, otherVerdict)]),
  ];
}

/** The addresses of a set; undefined for any other set. */
function addressesIn(family: Family, set: ReadSet | undefined): RangeSet | undefined {
  if (set === undefined || set.elements.catchAll || set.key === undefined) return undefined;
  return set.keyBytes === KEYS[set.key].bytes ? rangeSet(family, set.elements.ranges) : undefined;
}

type Element = Elements['ranges'][number];

/** An element as values of the key, whatever the order of its bytes. */
function elementRange(
  key: MatchKey,
  { first, last }: Element,
): { readonly first: bigint; readonly last: bigint } {
  const { bytes, order } = KEYS[key];
  if (order === 'network') return { first, last };
  const digits = first.toString(16).padStart(2 * bytes, '0');
  const value = BigInt(`0x${Buffer.from(digits, 'hex').reverse().toString('hex')}`);
  return { first: value, last: value };
}

function elementText(key: MatchKey | undefined, element: Element): string {
  return key === undefined ? `0x${element.first.toString(16)}` : KEYS[key].write(elementRange(key, element));
}

/** Longer sets are cut off. */
const MOST_ELEMENTS = 8;
/** Other programs choose texts as long as they like, and the agent keeps 20,000. */
const LONGEST_TEXT = 500;

function ruleText(context: NftContext, { comment }: RuleReply, statements: readonly Statement[]): string {
  const texts = statements.flatMap((one) =>
    one.kind === 'counter' ? [] : statementText(context.family, one),
  );
  const words = [`chain ${context.place.chain}:`, ...texts, ...(comment ? [`comment "${comment}"`] : [])];
  return readable(context, words.join(' '));
}

function readableTest(context: NftContext, test: Test): Test {
  return test !== undefined && 'text' in test ? { ...test, text: readable(context, test.text) } : test;
}

/** About as nft(8) writes it, so that people recognise it: without what it leaves out, and with the elements of sets. */
function readable({ sets }: NftContext, text: string): string {
  const words = text
    .replaceAll(/\[(?:unknown type (\w+)|(limit)) [^\]]*\]/g, '$1$2')
    .replaceAll(/meta nfproto ipv[46] (?=(?:meta l4proto \w+ |snat to )?ip6? )/g, '')
    .replaceAll(/meta l4proto (tcp|udp|sctp) th /g, '$1 ')
    .replaceAll(/@(__(?:set|map)\d+)/g, (_, name: string) => elementsText(sets.get(name)));
  return printable(words.length > LONGEST_TEXT ? `${words.slice(0, LONGEST_TEXT)}…` : words);
}

function elementsText({ key, elements }: Partial<ReadSet> = {}): string {
  const ranges = elements?.ranges ?? [];
  const texts = ranges.slice(0, MOST_ELEMENTS).map((one) => elementText(key, one));
  return `{ ${[...texts, ...(texts.length === 0 || ranges.length > MOST_ELEMENTS ? ['…'] : [])].join(', ')} }`;
}

/** The command that deletes a rule, if the names in it are such that nft(8) can read them there. */
export function deletion(
  { family, table, chain }: ChainName<TableFamily>,
  { handle }: RuleReply,
): Pick<Rule, 'deletion'> {
  const words = [TABLE_FAMILIES[family].word, table, chain];
  const isReadable = words.every((word) => /^[A-Za-z][\w./-]*$/.test(word));
  return isReadable ? { deletion: `nft delete rule ${words.join(' ')} handle ${handle}` } : {};
}
