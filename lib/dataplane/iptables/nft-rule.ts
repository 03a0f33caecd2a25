import type { Family } from '../../cidr/address.ts';
import type { Range } from '../../cidr/ranges.ts';
import type { Expression } from '../../netlink/expressions.ts';
import type { RuleReply } from '../../netlink/replies.ts';
import { decode } from '../nftables/decode.ts';
import { linkName, type MatchKey, type Statement, statementText } from '../nftables/statement.ts';
import { extensionText, NAT, prefixText, quoted, UNNAMED_SET } from './extensions.ts';

export interface NftRuleText {
  /**
   * The words after `-A CHAIN`, as `iptables -S` prints them; what is not understood stands in brackets, with the extension's
   * name.
   */
  readonly spec: string;
  /** Whether iptables-restore reads the words back as this rule. */
  readonly isExact: boolean;
}

type Match = Extract<Statement, { readonly kind: 'match' }>;

/** Protocols that iptables names without /etc/protocols (libxtables, xtables_chain_protos). */
const PROTOCOLS: Readonly<Record<number, string>> = {
  1: 'icmp',
  6: 'tcp',
  17: 'udp',
  50: 'esp',
  51: 'ah',
  58: 'ipv6-icmp',
  132: 'sctp',
  135: 'ipv6-mh',
  136: 'udplite',
};

/** The value of an option; undefined if there are no words for it. */
type ValueText = (range: Range, family: Family) => string | undefined;

const address: ValueText = (range, family) => prefixText(family, range);
const link: ValueText = (range) => linkName(range).replace(/\*$/, '+');
const protocol: ValueText = ({ first, last }) =>
  first === last ? (PROTOCOLS[Number(first)] ?? `${first}`) : undefined;
const ports: ValueText = ({ first, last }) => (first === last ? `${first}` : `${first}:${last}`);

/** Options that come before all matches, and those of tcp and udp, in the order of iptables. */
const HEAD = ['-s', '-d', '-i', '-o', '-p'];
const TRANSPORT = ['--sport', '--dport'];

/** What iptables-nft asks without an extension, apart from marks. */
const OPTIONS: Readonly<Partial<Record<MatchKey, readonly [option: string, text: ValueText]>>> = {
  'ip saddr': ['-s', address],
  'ip6 saddr': ['-s', address],
  'ip daddr': ['-d', address],
  'ip6 daddr': ['-d', address],
  iifname: ['-i', link],
  oifname: ['-o', link],
  'meta l4proto': ['-p', protocol],
  'ip protocol': ['-p', protocol],
  'ip6 nexthdr': ['-p', protocol],
  'th sport': ['--sport', ports],
  'th dport': ['--dport', ports],
};

/** What iptables-nft prints of a rule. */
export function iptablesRule(
  family: Family,
  { expressions, comment }: Pick<RuleReply, 'expressions' | 'comment'>,
): NftRuleText {
  const head = new Map<string, string>();
  /** Options of tcp or udp. */
  const transport = new Map<string, string>();
  /** Each is `-m NAME` with its options, or the place of `transport`. */
  const matches: (string | typeof transport)[] = [];
  let target: string | undefined;
  let isExact = true;

  for (const statement of decode(family, expressions)) {
    if (read(statement)) continue;
    matches.push(`[${unknownText(family, statement)}]`);
    isExact = false;
  }
  if (comment !== undefined) matches.push(`-m comment --comment ${quoted(comment)}`);
  const words = matches.flatMap((one) =>
    typeof one === 'string' ? one : [`-m ${protocolName()}`, ...inOrder(TRANSPORT, one)],
  );
  const spec = [...inOrder(HEAD, head), ...words, target].filter(Boolean).join(' ');
  return { spec, isExact: isExact && !spec.includes(UNNAMED_SET) };

  /** Whether it is understood. */
  function read(statement: Statement): boolean {
    switch (statement.kind) {
      case 'counter':
        return true;
      case 'match':
        return readMatch(statement);
      case 'verdict':
        return decide(verdictText(statement));
      case 'masquerade': {
        // iptables writes it as an extension, and calls a chain with this expression incompatible.
        isExact = false;
        const { flags } = statement;
        const random = `${flags & NAT.random ? ' --random' : ''}${flags & NAT.fully ? ' --random-fully' : ''}`;
        return decide(statement.ports === undefined ? `-j MASQUERADE${random}` : undefined);
      }
      case 'other':
        return readExtension(statement.last);
      default:
        return false;
    }
  }

  function readMatch(match: Match): boolean {
    const not = match.isNot ? '! ' : '';
    if (match.key === 'meta mark' && !('set' in match)) {
      matches.push(`-m mark ${not}--mark ${markText(match)}`);
      return true;
    }
    const [option, text] = OPTIONS[match.key] ?? [];
    const value = 'range' in match ? text?.(match.range, family) : undefined;
    if (option === undefined || value === undefined) return false;
    const isTransport = TRANSPORT.includes(option);
    // iptables has no words for ports of other protocols.
    if (isTransport && !['tcp', 'udp'].includes(protocolName())) return false;
    if (isTransport && !matches.includes(transport)) matches.push(transport);
    return addOnce(isTransport ? transport : head, option, `${not}${option} ${value}`);
  }

  function protocolName(): string {
    return head.get('-p')?.slice('-p '.length) ?? '';
  }

  function decide(words: string | undefined): boolean {
    if (words === undefined || target !== undefined) return false;
    target = words;
    return true;
  }

  function readExtension(one: Expression | undefined): boolean {
    if (one?.name !== 'match' && one?.name !== 'target') return false;
    const words = extensionText(one, { family });
    if (words === undefined) return false;
    if (one.name === 'target') return decide(`-j ${words}`);
    // Since 1.8.11, tcp without options is an extension, and options that follow count as its own.
    const isTransport = words === protocolName() && !matches.includes(transport);
    matches.push(isTransport ? transport : `-m ${words}`);
    return true;
  }
}

function verdictText({ verdict, chain = '' }: Extract<Statement, { kind: 'verdict' }>): string | undefined {
  switch (verdict) {
    case 'jump':
      return `-j ${chain}`;
    case 'goto':
      return `-g ${chain}`;
    case 'continue':
      return undefined;
    default:
      return `-j ${verdict.toUpperCase()}`;
  }
}

function markText(match: Exclude<Match, { readonly set: string }>): string {
  if ('range' in match) return `0x${match.range.first.toString(16)}`;
  return `0x${match.value.toString(16)}/0x${match.mask.toString(16)}`;
}

/** False if the rule has the option already: iptables has no words for both. */
function addOnce(options: Map<string, string>, option: string, words: string): boolean {
  if (options.has(option)) return false;
  options.set(option, words);
  return true;
}

function inOrder(order: readonly string[], options: ReadonlyMap<string, string>): readonly string[] {
  return order.flatMap((option) => options.get(option) ?? []);
}

function unknownText(family: Family, statement: Statement): string {
  if (statement.kind !== 'other' || statement.last === undefined) return statementText(family, statement);
  const { last } = statement;
  if (last.name === 'match' || last.name === 'target') return `${last.name} ${last.extension}`;
  return last.name === 'unknown' ? last.type : last.name;
}
