import { ADDRESS_BITS, familyOf, formatAddress, parseAddress } from '../../cidr/address.ts';
import { parsePrefix } from '../../cidr/prefix.ts';

/** A rule of one of the agent's chains. */
export interface KernelRule {
  readonly chain: string;
  /** The words after `-A CHAIN`. */
  readonly spec: string;
}

/**
 * The words after `-A CHAIN` in the output of `iptables -S`, without quotes and with canonical addresses: two texts of
 * one rule give the same words.
 */
export function ruleWords(spec: string): readonly string[] {
  const words = splitWords(spec);
  return words.map((word, index) => {
    const option = words[index - 1] ?? '';
    if (option === '--to-source') return canonicalTranslation(word);
    return ['-d', '-s'].includes(option) ? canonicalCidr(word) : word;
  });
}

export function sameRule(a: string, b: string): boolean {
  return a === b || ruleKey(a) === ruleKey(b);
}

/** A key that is equal for two texts of the same rule. */
function ruleKey(spec: string): string {
  return JSON.stringify(ruleWords(spec));
}

/** The same for a rule in its chain. */
export function keyOf({ chain, spec }: KernelRule): string {
  return `${chain} ${ruleKey(spec)}`;
}

/** The chain that the rule jumps or goes to, or its target. */
export function ruleTarget(spec: string): string | undefined {
  const words = ruleWords(spec);
  const index = words.findLastIndex((word) => word === '-j' || word === '-g');
  return index === -1 ? undefined : words[index + 1];
}

/** Whether iptables-restore could read the text back: it ends a rule at a line break, and U+FFFD stands for any byte. */
export function isWritable(spec: string): boolean {
  return !/[\n\ufffd]/.test(spec);
}

/** The same words for iptables-restore. */
export function quoteWords(spec: string): string {
  return ruleWords(spec)
    .map((word) => `"${word.replace(/["\\]/g, String.raw`\$&`)}"`)
    .join(' ');
}

/**
 * A word in double quotes, in which a backslash protects the next character (xtables_save_string). iptables prints some names as they
 * are, such as those of interfaces: a quote in such a word is a character as any other.
 */
const QUOTED = String.raw`"([^"\\]*(?:\\.[^"\\]*)*)"(?!\S)`;
const WORD = new RegExp(String.raw`${QUOTED}|(\S+)`, 'gs');
const LINE = new RegExp(String.raw`(?:${QUOTED}|\S+|[^\S\n]+)+`, 'gs');

/** Splits what iptables lists. Comments may hold line breaks: a line ends only outside of quotes. */
export function splitLines(listing: string): readonly string[] {
  return listing.match(LINE) ?? [];
}

/** Splits at spaces. */
function splitWords(spec: string): readonly string[] {
  return Array.from(spec.matchAll(WORD), ([, quoted, bare]) =>
    quoted === undefined ? (bare ?? '') : quoted.replace(/\\(.)/gs, '$1'),
  );
}

function canonicalCidr(word: string): string {
  const family = familyOf(word);
  const parsed = parsePrefix(family === undefined ? word : `${word}/${ADDRESS_BITS[family]}`);
  return 'prefix' in parsed ? parsed.prefix.text : word;
}

/** An address, or one in brackets with ports. iptables prints IPv6 addresses below 2^32 with an IPv4 address in them. */
function canonicalTranslation(word: string): string {
  const [, text = word] = /^\[(.*)\]/.exec(word) ?? [];
  const address = parseAddress(text);
  return address === undefined ? word : word.replace(text, formatAddress(address));
}
