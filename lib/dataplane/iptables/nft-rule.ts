import type { Family } from '../../cidr/address.ts';
import type { Expression, KnownExpression } from '../../netlink/expressions.ts';
import { bytesOf } from '../../netlink/messages.ts';
import type { RuleReply } from '../../netlink/replies.ts';
import { extensionText, NAT, prefixText, quoted, type SetNames, TCP_FLAGS } from './extensions.ts';

export interface NftRuleText {
  /**
   * The words after `-A CHAIN`, as `iptables -S` prints them; what is not understood stands in brackets, with the extension's
   * name.
   */
  readonly spec: string;
  /** Whether iptables-restore reads the words back as this rule. */
  readonly isExact: boolean;
}

type Of<Name> = Extract<KnownExpression, { readonly name: Name }>;

/** What a register holds: a field of the packet, and the mask that was put over it. */
interface Loaded {
  /** The key in FIELDS. */
  readonly field: string;
  readonly mask?: Buffer;
}

/** A question about a field. */
interface Test {
  readonly isNot: boolean;
  readonly first: Buffer;
  /** The end of a range. */
  readonly last?: Buffer | undefined;
  readonly mask?: Buffer | undefined;
}

interface Field {
  /** The option. */
  readonly option: string;
  /** The match that has the option; undefined for an option of every rule. `tcp` stands for the protocol of the rule. */
  readonly match?: string;
  /** The length of all values; undefined if any will do. */
  readonly bytes?: number;
  /** @returns undefined if there are no words for it */
  readonly text: (test: Test, family: Family) => string | undefined;
}

/** Options that come before all matches, and those of tcp and udp, in the order of iptables. */
const HEAD = ['-s', '-d', '-i', '-o', '-p', '-f'] as const;
const TRANSPORT = ['--sport', '--dport', '--tcp-flags'] as const;

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

const plainly =
  (text: (first: Buffer) => string | undefined): Field['text'] =>
  ({ first, last, mask }) =>
    last || mask ? undefined : text(first);

const address = (option: string): Field => ({
  option,
  text: ({ first, last, mask }, family) => {
    const bytes = family === 'IPv4' ? 4 : 16;
    const full = Buffer.alloc(bytes);
    first.copy(full);
    // A prefix of whole bytes is a shorter load.
    const masked = Buffer.alloc(bytes);
    (mask ?? Buffer.alloc(first.length, 0xff)).copy(masked);
    return last || first.length > bytes ? undefined : prefixText(family, full, masked);
  },
});

const link = (option: string): Field => ({
  option,
  // A name without a zero at its end is a beginning.
  text: plainly((name) => {
    const end = name.indexOf(0);
    return end < 0 ? `${name.toString()}+` : name.toString('utf8', 0, end);
  }),
});

const port = (option: string): Field => ({
  option,
  match: 'tcp',
  bytes: 2,
  text: ({ first, last = first, mask }) => {
    const [low, high] = [first, last].map((one) => one.readUInt16BE());
    return mask ? undefined : low === high ? `${low}` : `${low}:${high}`;
  },
});

const PROTOCOL: Field = {
  option: '-p',
  bytes: 1,
  text: plainly(([number = 0]) => PROTOCOLS[number] ?? `${number}`),
};

const hex = (bytes: Buffer) => `0x${bytes.readUInt32LE().toString(16)}`;

const MARK: Field = {
  option: '--mark',
  match: 'mark',
  bytes: 4,
  text: ({ first, last, mask }) =>
    last ? undefined : `${hex(first)}${mask === undefined ? '' : `/${hex(mask)}`}`,
};

const FRAGMENT_OFFSET = Buffer.from('1fff', 'hex');

const SOURCE_PORT = 'payload 2 0';
const DESTINATION_PORT = 'payload 2 2';

/** Fields of both families: `meta KEY` or `payload BASE OFFSET`, where base 1 is the network and 2 the transport header. */
const COMMON: Readonly<Record<string, Field>> = {
  'meta 3': MARK,
  'meta 6': link('-i'),
  'meta 7': link('-o'),
  'meta 16': PROTOCOL,
  [SOURCE_PORT]: port('--sport'),
  [DESTINATION_PORT]: port('--dport'),
  'payload 2 13': {
    option: '--tcp-flags',
    match: 'tcp',
    bytes: 1,
    text: ({ first, last, mask = Buffer.of(0xff) }, family) =>
      last ? undefined : TCP_FLAGS[1](Buffer.concat([mask, first]), 0, { family, names: undefined }),
  },
};

const FIELDS: Readonly<Record<Family, Readonly<Record<string, Field>>>> = {
  IPv4: {
    ...COMMON,
    'payload 1 12': address('-s'),
    'payload 1 16': address('-d'),
    'payload 1 9': PROTOCOL,
    'payload 1 6': {
      option: '-f',
      bytes: 2,
      text: ({ first, mask }) =>
        mask?.equals(FRAGMENT_OFFSET) && first.readUInt16BE() === 0 ? '' : undefined,
    },
  },
  IPv6: { ...COMMON, 'payload 1 8': address('-s'), 'payload 1 24': address('-d'), 'payload 1 6': PROTOCOL },
};

/** Verdicts of nf_tables and netfilter. */
const VERDICTS: Readonly<Record<number, (chain: string) => string>> = {
  [-5]: () => '-j RETURN',
  [-4]: (chain) => `-g ${chain}`,
  [-3]: (chain) => `-j ${chain}`,
  0: () => '-j DROP',
  1: () => '-j ACCEPT',
};

/** As in comparisons and ranges; 0 asks for the same. */
const NFT_CMP_NEQ = 1;
/** The ports that other comparisons ask for: NFT_CMP_LT, LTE, GT and GTE. */
const EDGES: Readonly<Record<number, (port: number) => readonly [low: number, high: number]>> = {
  2: (port) => [0, port - 1],
  3: (port) => [0, port],
  4: (port) => [port + 1, 0xffff],
  5: (port) => [port, 0xffff],
};

/** Units of a rate, which iptables counts in parts of a second (XT_LIMIT_SCALE). */
const UNITS = [
  ['day', 864_000_000],
  ['hour', 36_000_000],
  ['min', 600_000],
  ['sec', 10_000],
] as const;
const DEFAULT_BURST = 5;

/**
 * What iptables-nft prints of a rule.
 *
 * @param names names of ipsets by index
 */
export function iptablesRule(
  family: Family,
  { expressions, comment }: Pick<RuleReply, 'expressions' | 'comment'>,
  names?: SetNames,
): NftRuleText {
  const reader = new Reader(family, names);
  for (const expression of expressions) reader.read(expression);
  if (comment !== undefined) reader.add('comment', `--comment ${quoted(comment)}`);
  return reader.rule();
}

class Reader {
  readonly #family: Family;
  readonly #names: SetNames | undefined;
  readonly #registers = new Map<number | undefined, Loaded>();
  readonly #head = new Map<string, string>();
  /** Options of tcp or udp. */
  readonly #transport = new Map<string, string>();
  /** Each is `-m NAME` with its options, or the place of `#transport`. */
  readonly #matches: (string | ReadonlyMap<string, string>)[] = [];
  #target: string | undefined;
  #isExact = true;

  constructor(family: Family, names: SetNames | undefined) {
    this.#family = family;
    this.#names = names;
  }

  rule(): NftRuleText {
    const matches = this.#matches.flatMap((one) =>
      typeof one === 'string' ? one : [`-m ${this.#protocol()}`, ...inOrder(TRANSPORT, one)],
    );
    const spec = [...inOrder(HEAD, this.#head), ...matches, this.#target ?? ''].filter(Boolean).join(' ');
    return { spec, isExact: this.#isExact };
  }

  add(match: string, words: string): true {
    this.#matches.push(`-m ${match} ${words}`);
    return true;
  }

  read(expression: Expression): void {
    if (!this.#understands(expression)) this.#unknown(nameOf(expression));
  }

  #unknown(what: string): void {
    this.#matches.push(`[${what}]`);
    this.#isExact = false;
  }

  #understands(one: Expression): boolean {
    switch (one.name) {
      case 'counter':
        return true;
      case 'meta':
        return one.to !== undefined && this.#load(one.to, { field: `meta ${one.key}` });
      case 'payload':
        return one.to !== undefined && this.#load(one.to, { field: `payload ${one.base} ${one.offset}` });
      case 'bitwise':
        return this.#mask(one);
      case 'cmp':
        return this.#test(one.from, one.operation, one.value);
      case 'range':
        return this.#test(one.from, one.operation, one.first, one.last);
      case 'immediate':
        return this.#decide(one.verdict && VERDICTS[one.verdict.code]?.(one.verdict.chain ?? ''));
      case 'limit':
        return this.#limit(one);
      case 'masq':
        return this.#masquerade(one);
      case 'match':
      case 'target':
        return this.#extension(one);
      default:
        return false;
    }
  }

  #load(register: number, loaded: Loaded): true {
    this.#registers.set(register, loaded);
    return true;
  }

  #mask({ from, to, mask = '', xor = '', operation }: Of<'bitwise'>): boolean {
    const loaded = this.#registers.get(from);
    const isPlain = loaded?.mask === undefined && !operation && /^0*$/.test(xor);
    if (to === undefined || loaded === undefined || !isPlain) return false;
    return this.#load(to, { ...loaded, mask: Buffer.from(mask, 'hex') });
  }

  #test(register: number | undefined, operation = 0, first = '', last?: string): boolean {
    const { field = '', mask } = this.#registers.get(register) ?? {};
    const from = Buffer.from(first, 'hex');
    const test = testOf(operation, from, last === undefined ? last : Buffer.from(last, 'hex'), mask);
    if (test === undefined) return false;
    if (field !== SOURCE_PORT || from.length !== 4 || last !== undefined || mask)
      return this.#ask(field, test);
    // Before 1.8.11, iptables-nft asks for both ports at once if it can.
    const isKnown = this.#ask(SOURCE_PORT, { ...test, first: from.subarray(0, 2) });
    return this.#ask(DESTINATION_PORT, { ...test, first: from.subarray(2) }) && isKnown;
  }

  #ask(field: string, test: Test): boolean {
    const { option, match, bytes, text } = FIELDS[this.#family][field] ?? {};
    const lengths = [test.first, test.last, test.mask].map((one) => one?.length ?? bytes);
    if (bytes !== undefined && lengths.some((length) => length !== bytes)) return false;
    const value = text?.(test, this.#family);
    if (option === undefined || value === undefined) return false;
    // Fragments are those whose offset is not 0.
    const words = `${test.isNot === (option !== '-f') ? '! ' : ''}${option} ${value}`.trimEnd();
    if (match === 'mark') return this.add(match, words);
    if (match === undefined) return addOnce(this.#head, option, words);
    if (!['tcp', 'udp'].includes(this.#protocol())) return false;
    if (!this.#matches.includes(this.#transport)) this.#matches.push(this.#transport);
    return addOnce(this.#transport, option, words);
  }

  #protocol(): string {
    return this.#head.get('-p')?.slice('-p '.length) ?? '';
  }

  #decide(target: string | undefined): boolean {
    if (target === undefined || this.#target !== undefined) return false;
    this.#target = target;
    return true;
  }

  #limit({ rate = 0n, unit = 0n, burst = 0, type, flags }: Of<'limit'>): boolean {
    const period = rate === 0n ? 0 : Math.trunc((Number(unit) * UNITS[3][1]) / Number(rate));
    if (type || flags || period === 0) return false;
    // iptables prints the shortest unit behind which the rate is a number of it.
    const end = UNITS.findIndex(
      ([, parts], index) => index > 0 && (period > parts || Math.trunc(parts / period) < parts % period),
    );
    const [name, parts] = UNITS.at(end < 0 ? -1 : end - 1) ?? UNITS[0];
    const most = burst === DEFAULT_BURST ? '' : ` --limit-burst ${burst}`;
    return this.add('limit', `--limit ${Math.trunc(parts / period)}/${name}${most}`);
  }

  /** iptables writes it as an extension, and calls a chain with this expression incompatible. */
  #masquerade({ flags = 0, fromPort }: Of<'masq'>): boolean {
    this.#isExact = false;
    const random = `${flags & NAT.random ? ' --random' : ''}${flags & NAT.fully ? ' --random-fully' : ''}`;
    return fromPort === undefined && this.#decide(`-j MASQUERADE${random}`);
  }

  #extension(one: Of<'match' | 'target'>): boolean {
    const found = extensionText(one, { family: this.#family, names: this.#names });
    if (found === undefined) return false;
    this.#isExact &&= found.isExact;
    if (one.name === 'target') return this.#decide(`-j ${found.words}`);
    // Since 1.8.11, tcp without options is an extension, and options that follow count as its own.
    const isTransport = found.words === this.#protocol() && !this.#matches.includes(this.#transport);
    this.#matches.push(isTransport ? this.#transport : `-m ${found.words}`);
    return true;
  }
}

/** The question of a comparison; undefined if there are no words for it. Above and below ask for a range, of ports. */
function testOf(operation: number, first: Buffer, last?: Buffer, mask?: Buffer): Test | undefined {
  const edges = EDGES[operation];
  if (edges === undefined)
    return operation <= NFT_CMP_NEQ ? { isNot: operation === NFT_CMP_NEQ, first, last, mask } : undefined;
  const [low, high] = first.length === 2 ? edges(first.readUInt16BE()) : [1, 0];
  if (low > high) return undefined;
  return { isNot: false, first: bytesOf(low, 2), last: bytesOf(high, 2), mask };
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

function nameOf(one: Expression): string {
  switch (one.name) {
    case 'unknown':
      return one.type;
    case 'match':
    case 'target':
      return `${one.name} ${one.extension}`;
    case 'lookup':
      return `lookup ${one.set}`;
    default:
      return one.name;
  }
}
