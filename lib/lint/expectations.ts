import { ADDRESS_BITS, familyOf } from '../cidr/address.ts';
import { type Prefix, parsePrefix } from '../cidr/prefix.ts';
import { PrefixMap } from '../cidr/prefix-map.ts';
import type { ConfigOptions } from '../config/config.ts';
import { maxMarks } from '../config/limits.ts';
import { type Problem, type ProblemKind, problem } from '../config/problem.ts';
import { countMarks } from '../config/size.ts';
import { Locator, type Source } from '../config/source.ts';
import { describe, type MapNode, type Node, parseYaml, YamlError } from '../config/yaml.ts';
import { printable, quote } from '../text/escape.ts';
import type { FileOrigin } from '../text/origin.ts';

/** What a policy must do with all addresses of a prefix, and where that is said. */
export interface Expectation {
  readonly prefix: Prefix;
  readonly verdict: 'return' | 'masquerade';
  readonly origin: FileOrigin;
}

/** The expectations of a file; none if it has a problem. */
export interface Expectations {
  readonly expectations: readonly Expectation[];
  readonly problems: readonly Problem[];
}

type Options = Pick<ConfigOptions, 'enableIPv6' | 'cidrLimitMax'>;

/** Reads a map of addresses and CIDRs to verdicts, in YAML or JSON. It has the limits of a source. */
export function readExpectations(file: Source, options: Options): Expectations {
  const locator = new Locator(file);
  const problems: Problem[] = [];
  const report: Report = (kind, offset, message, remedy, other) => {
    const theOther = other && { other: locator.origin(other.offset) };
    problems.push(problem(kind, { at: locator.origin(offset), message, remedy, ...theOther }));
  };
  const seen = new PrefixMap<Node>();
  const expectations = pairsOf(file.text, options, report).flatMap(({ key, value }) => {
    const prefix = readKey(key, options, report);
    const verdict = readVerdict(value, report);
    if (prefix === undefined || verdict === undefined) return [];
    const first = seen.get(prefix);
    if (first !== undefined)
      report('duplicate-key', key.offset, `${prefix.text} is there twice`, 'keep one of the two', first);
    seen.set(prefix, key);
    return { prefix, verdict, origin: locator.origin(key.offset) };
  });
  return { expectations: problems.length === 0 ? expectations : [], problems };
}

type Report = (kind: ProblemKind, offset: number, message: string, remedy: string, other?: Node) => void;

function pairsOf(text: string, { cidrLimitMax }: Options, report: Report): MapNode['pairs'] {
  const remedy = 'write for example "10.0.0.0/8: not masqueraded"';
  try {
    countMarks(text, maxMarks(cidrLimitMax));
    const root = parseYaml(text);
    if (root !== undefined && root.kind !== 'map') {
      report('shape', root.offset, `expectations must be a map, but this is ${describe(root)}`, remedy);
      return [];
    }
    const pairs = root?.pairs ?? [];
    if (pairs.length === 0) report('shape', 0, 'there is no expectation', remedy);
    const excess = pairs[cidrLimitMax];
    if (excess === undefined) return pairs;
    const message = `${pairs.length} expectations, but there may be only ${cidrLimitMax}`;
    report('cidr-limit', excess.key.offset, message, 'join CIDRs, or use a larger --cidr-limit-max');
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    report('syntax', error.offset, printable(error.message), error.remedy);
  }
  return [];
}

function readKey(key: Node, { enableIPv6 }: Options, report: Report): Prefix | undefined {
  if (key.kind !== 'scalar' || typeof key.value !== 'string') {
    const message = `a key must be an address or a CIDR, but is ${describe(key)}`;
    report('shape', key.offset, message, 'write for example 10.1.2.3 or 10.0.0.0/8');
    return undefined;
  }
  const family = familyOf(key.value);
  const parsed = parsePrefix(family === undefined ? key.value : `${key.value}/${ADDRESS_BITS[family]}`);
  if ('error' in parsed) {
    const { message, remedy } = parsed.error;
    report('cidr', key.offset, `${quote(key.value)} ${printable(message)}`, printable(remedy));
    return undefined;
  }
  if (parsed.prefix.family === 'IPv6' && !enableIPv6) {
    const message = `${parsed.prefix.text} is IPv6, but IPv6 is not enabled`;
    report('ipv6-disabled', key.offset, message, 'add --enable-ipv6, or remove the expectation');
  }
  return parsed.prefix;
}

function readVerdict(value: Node, report: Report): Expectation['verdict'] | undefined {
  const text = value.kind === 'scalar' ? value.value : undefined;
  if (text === 'masqueraded') return 'masquerade';
  if (text === 'not masqueraded') return 'return';
  const message = `a verdict is "masqueraded" or "not masqueraded", but this is ${describe(value)}`;
  report('shape', value.offset, message, 'write one of the two');
  return undefined;
}
