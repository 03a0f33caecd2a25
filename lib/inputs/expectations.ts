import { ADDRESS_BITS, familyOf } from '../cidr/address.ts';
import { type Prefix, parsePrefix, splitTraffic, type Traffic, trafficText } from '../cidr/prefix.ts';
import type { ConfigOptions } from '../config/config.ts';
import { type ConfigFile, originIn, problemIn } from '../config/config-file.ts';
import { problemFramer } from '../config/frame.ts';
import type { NoteProblem } from '../config/key.ts';
import { maxIndicators } from '../config/limits.ts';
import { checkedPrefix } from '../config/list-key.ts';
import type { Problem } from '../config/problem.ts';
import { countIndicators } from '../config/size.ts';
import { describe, type MapNode, type Node, parseYaml } from '../config/yaml.ts';
import { PlacedError } from '../text/error.ts';
import { printable } from '../text/escape.ts';
import type { FileOrigin } from '../text/origin.ts';
import { readFile } from './input.ts';

/** A verdict that all packets of some traffic must have, and where that is said. */
export interface Expectation extends Traffic {
  readonly verdict: 'not_masqueraded' | 'masqueraded';
  readonly origin: FileOrigin;
}

type Options = Pick<ConfigOptions, 'families' | 'cidrLimitMax'>;

/**
 * Reads a file of expectations.
 *
 * @returns a text for people if something is wrong with it
 */
export async function readExpectFile(path: string, options: Options) {
  const file = await readFile(path);
  if (!('text' in file)) return problemFramer([])(file);
  const { expectations, problems } = readExpectations(file, options);
  return problems.length > 0 ? problems.map(problemFramer([file])).join('\n') : { file, expectations };
}

/**
 * Reads a map of destinations to verdicts, in YAML or JSON. A destination is an address or a CIDR; behind `from` it may say
 * where the packets come from. The file has the limits of a config file; if it has a problem, it has no expectation.
 */
export function readExpectations(file: ConfigFile, options: Options) {
  const problems: Problem[] = [];
  const report: NoteProblem = (...about) => void problems.push(problemIn(file, ...about));
  const seen = new Map<string, Node>();
  const expectations = pairsOf(file.text, options, report).flatMap(({ key, value }) => {
    const traffic = readKey(key, options, report);
    const verdict = readVerdict(value, report);
    if (traffic === undefined || verdict === undefined) return [];
    const text = trafficText(traffic);
    const first = seen.get(text);
    if (first !== undefined)
      report('duplicate-key', key, `${text} is there twice`, 'keep one of the two', first);
    seen.set(text, key);
    return { ...traffic, verdict, origin: originIn(file, key.offset) };
  });
  return { expectations: problems.length === 0 ? expectations : [], problems };
}

function pairsOf(text: string, { cidrLimitMax }: Options, report: NoteProblem): MapNode['pairs'] {
  const remedy = 'write for example "10.0.0.0/8: not masqueraded"';
  try {
    countIndicators(text, maxIndicators(cidrLimitMax));
    const root = parseYaml(text);
    if (root !== undefined && root.kind !== 'map') {
      report('shape', root, `expectations must be a map, but this is ${describe(root)}`, remedy);
      return [];
    }
    const pairs = root?.pairs ?? [];
    if (pairs.length === 0) report('shape', { offset: 0 }, 'there is no expectation', remedy);
    const excess = pairs[cidrLimitMax];
    if (excess === undefined) return pairs;
    const message = `${pairs.length} expectations, but there may be only ${cidrLimitMax}`;
    report('cidr-limit', excess.key, message, 'join CIDRs, or use a larger --cidr-limit-max');
  } catch (error) {
    if (!(error instanceof PlacedError)) throw error;
    report('syntax', error, printable(error.message), error.remedy);
  }
  return [];
}

function readKey(key: Node, options: Options, report: NoteProblem): Traffic | undefined {
  if (key.kind !== 'scalar' || typeof key.value !== 'string') {
    const message = `a key must be an address or a CIDR, but is ${describe(key)}`;
    report('shape', key, message, 'write for example 10.1.2.3 or 10.0.0.0/8');
    return undefined;
  }
  const { to, from } = splitTraffic(key.value);
  const prefix = readPrefix(to, key, options, report);
  if (from === undefined || prefix === undefined) return prefix && { prefix };
  const source = readPrefix(from, key, options, report);
  if (source !== undefined && source.family !== prefix.family) {
    const message = `${prefix.text} and ${source.text} are not of one family`;
    report('shape', key, message, 'write two of IPv4, or two of IPv6');
    return undefined;
  }
  return source && { prefix, from: source };
}

/** An address as a prefix of its whole length, or a CIDR. */
function readPrefix(text: string, at: Node, { families }: Options, report: NoteProblem): Prefix | undefined {
  const family = familyOf(text);
  const parsed = parsePrefix(family === undefined ? text : `${text}/${ADDRESS_BITS[family]}`);
  return checkedPrefix(
    text,
    parsed,
    at,
    { families, report },
    (flag) => `add ${flag}, or remove the expectation`,
  );
}

function readVerdict(value: Node, report: NoteProblem): Expectation['verdict'] | undefined {
  const text = value.kind === 'scalar' ? value.value : undefined;
  if (text === 'masqueraded') return 'masqueraded';
  if (text === 'not masqueraded') return 'not_masqueraded';
  const message = `a verdict is "masqueraded" or "not masqueraded", but this is ${describe(value)}`;
  report('shape', value, message, 'write one of the two');
  return undefined;
}
