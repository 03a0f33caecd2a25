import { isIP } from 'node:net';
import { isIPv4, parseAddress } from '../../lib/cidr/address.ts';
import { type Prefix, parsePrefix, splitTraffic } from '../../lib/cidr/prefix.ts';
import { isPossibleConfigFileName } from '../../lib/config/config-file.ts';
import { intervalError, parseDuration } from '../../lib/config/duration.ts';
import { isChainName } from '../../lib/dataplane/iptables/chain.ts';
import {
  PORT_PROTOCOLS,
  type PortProtocol,
  type PortRange,
  parsePortRanges,
} from '../../lib/dataplane/ports.ts';
import type { GivenTraffic } from '../../lib/policy/checks.ts';
import { printable, quote } from '../../lib/text/escape.ts';
import { UsageError } from './exit.ts';

/** How the text of a flag becomes its value. */
export interface FlagKind<Value> {
  /** The placeholder for the value in the help; empty for a boolean, which needs no value. */
  readonly placeholder: string;
  /** What a boolean may have as a value besides true and false. */
  readonly orElse?: string;
  /** The words that it takes, if it takes no others. */
  readonly choices?: readonly string[];
  /** Whether each time that the flag is given adds to the others, instead of replacing them. */
  readonly repeats?: boolean;
  /** Whether a command line may not give an empty text. */
  readonly needsText?: boolean;
  /**
   * @param texts one, or more if the flag repeats
   * @throws {UsageError} with the end of the sentence "--flag=text …"
   */
  parse(...texts: readonly string[]): Value;
}

/**
 * A kind whose texts a function reads.
 *
 * @param read its value is undefined for a wrong text
 * @param wrong what is wrong with such a text, and what to write instead
 */
function kind<Value>(
  placeholder: string,
  read: (text: string) => Value | undefined,
  wrong: string,
): FlagKind<Value> {
  return {
    placeholder,
    parse(text) {
      const value = read(text);
      if (value === undefined) throw new UsageError(wrong);
      return value;
    },
  };
}

/** The same, with undefined for an empty text. */
function optional<Value>(...row: Parameters<typeof kind<Value>>): FlagKind<Value | undefined> {
  const given = kind(...row);
  return { ...given, parse: (text) => (text === '' ? undefined : given.parse(text)) };
}

/** The texts that Go's strconv.ParseBool accepts. */
const GO_TRUE = ['1', 't', 'T', 'true', 'TRUE', 'True'];
const GO_FALSE = ['0', 'f', 'F', 'false', 'FALSE', 'False'];

export const boolean = kind(
  '',
  (text) => (GO_TRUE.includes(text) ? true : GO_FALSE.includes(text) ? false : undefined),
  'is not a boolean: write true or false',
);

/** A boolean, or some of the protocols that have ports, separated by commas. */
export const protocols: FlagKind<boolean | readonly PortProtocol[]> = {
  placeholder: '',
  orElse: 'PROTOCOLS',
  parse(text) {
    if ([...GO_TRUE, ...GO_FALSE].includes(text)) return boolean.parse(text);
    const items = text.split(',');
    const wrong = items.find((item) => !PORT_PROTOCOLS.some((protocol) => protocol === item));
    if (wrong === undefined) return PORT_PROTOCOLS.filter((protocol) => items.includes(protocol));
    const names = PORT_PROTOCOLS.join(', ');
    throw new UsageError(`has ${quote(wrong)}: write true, false, or some of ${names}, with commas between`);
  },
};

export function anyText(placeholder: string): FlagKind<string> {
  return { placeholder, parse: (text) => text };
}

export const path = kind(
  'PATH',
  (text) => (text === '' || text.includes('\0') ? undefined : text),
  'is not a path',
);

export const optionalPath: FlagKind<string> = { ...path, parse: (text) => text && path.parse(text) };

/** A path that a command line does not give as an empty text, as of a variable that is not set. */
export const givenPath: FlagKind<string> = { ...optionalPath, needsText: true };

export const paths: FlagKind<readonly string[]> = {
  placeholder: path.placeholder,
  repeats: true,
  needsText: true,
  parse: (...texts) => texts.filter((text) => text !== '').map((text) => path.parse(text)),
};

export const optionalAddress = optional(
  'ADDRESS',
  parseAddress,
  'is not an IP address: write one such as 10.244.1.2 or fd00::1',
);

export const chain = kind(
  'NAME',
  (text) => (isChainName(text) ? text : undefined),
  "cannot be the name of the agent's chain: write at most 28 of A-Z a-z 0-9 _ -, no leading dash, no -FROM at the end, no name that iptables or Kubernetes uses",
);

export const count = kind(
  'N',
  (text) => (/^\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined),
  'is not a whole number of 0 or more',
);

/** Milliseconds, from whole seconds as in the Go agents, or from a Go duration. */
export const interval: FlagKind<number> = {
  placeholder: 'DURATION',
  parse(text) {
    const duration = /^\d+$/.test(text) ? `${text}s` : text;
    const error = intervalError(duration);
    if (error !== undefined) throw new UsageError(`${error}: write seconds, or a Go duration such as 1m30s`);
    return parseDuration(duration) ?? 0;
  },
};

/** An interval, or none. */
export const grace: FlagKind<number> = {
  ...interval,
  parse: (text) => (text === '0' ? 0 : interval.parse(text)),
};

/** Items separated by commas; an empty text means none. A flag that is given again adds to the others, so that no assertion is lost. */
function list<Item>(placeholder: string, itemOf: (text: string) => Item): FlagKind<readonly Item[]> {
  return {
    placeholder,
    repeats: true,
    parse(...texts) {
      const items = texts.filter((text) => text !== '').flatMap((text) => text.split(','));
      return [...new Set(items)].map(itemOf);
    },
  };
}

export const configFileNames: FlagKind<readonly string[]> = {
  ...list('NAMES', (name) => {
    if (isPossibleConfigFileName(name)) return name;
    throw new UsageError(
      `has ${quote(name)}, which no config file can be named: write names that begin with ip-masq-, with commas between`,
    );
  }),
  repeats: false,
};

/** CIDRs, each perhaps with `from` and the CIDR that packets come from. */
export const assertions = list('CIDRS', (item): GivenTraffic => {
  const { to, from } = splitTraffic(item);
  const traffic = { prefix: prefixOf(to), from: from === undefined ? undefined : prefixOf(from) };
  if (traffic.from === undefined || traffic.from.family === traffic.prefix.family) return traffic;
  throw new UsageError(`is not a list of CIDRs: ${quote(item)} has two families`);
});

export const cidrList = list('CIDRS', prefixOf);

export const names = list('NAMES', (name) => name);

/** Some of these words. */
export function someOf<const Word extends string>(words: readonly Word[]): FlagKind<readonly Word[]> {
  return list('NAMES', (name) => {
    const word = words.find((one) => one === name);
    if (word !== undefined) return word;
    throw new UsageError(`has ${quote(name)}: write some of ${words.join(', ')}, with commas between`);
  });
}

function prefixOf(text: string): Prefix {
  const parsed = parsePrefix(text);
  if ('prefix' in parsed) return parsed.prefix;
  const { message, remedy } = parsed.error;
  throw new UsageError(`is not a list of CIDRs: ${quote(text)} ${printable(message)}: ${printable(remedy)}`);
}

/** Port ranges; an empty text means any port. */
export const portRanges = kind<readonly PortRange[]>(
  'RANGES',
  (text) => (text === '' ? [] : parsePortRanges(text)),
  'is not a list of port ranges: write ports from 1 to 65535 such as 10000-29999,32768-51819',
);

/** `host:port`, or an empty text. As in Go, IPv4 may be in brackets too: one manifest fits nodes of both families. */
export const bindAddress = kind(
  'HOST:PORT',
  (text) => {
    const [, bracketed, plain, port] = /^(?:\[(.*)\]|([^:]*)):(\d{1,5})$/.exec(text) ?? [];
    const isHost = bracketed === undefined ? plain === '' || isIPv4(plain ?? '') : isIP(bracketed) !== 0;
    return text === '' || (Number(port) <= 65_535 && isHost) ? text : undefined;
  },
  'is not an address and port: write for example 127.0.0.1:9614 or [::1]:9614',
);

export function choice<const Choice extends string>(...choices: readonly Choice[]): FlagKind<Choice> {
  const read = (text: string) => choices.find((candidate) => candidate === text);
  return { ...kind(choices.join('|'), read, `is not known: write ${choices.join(' or ')}`), choices };
}
