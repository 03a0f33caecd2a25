import type { Prefix } from '../../cidr/prefix.ts';
import {
  type Address,
  decisiveSources,
  type Entry,
  type Policy,
  VERDICT_TEXT,
  type Verdict,
  verdictElsewhere,
} from '../../policy/policy.ts';
import { COMMENT_START } from '../dataplane.ts';
import type { RuleOptions } from '../options.ts';
import { portRules, portsText } from '../ports.ts';
import { renderedOnce } from '../rendered.ts';
import { translationText } from '../translation.ts';

export interface ChainRule {
  readonly chain: string;
  /** The words after `-A CHAIN`. */
  readonly spec: string;
  /** The entry that asks for it; undefined for rules that concern all other destinations. */
  readonly entry: Entry | undefined;
  /** What happens to packets that match; undefined if they go on in the second chain, or the node itself sends them. */
  readonly verdict: Verdict | undefined;
}

/**
 * The rules of the agent's chains, in the order in which a packet meets them: first those about sources. If packets must come
 * from certain ranges, the first chain only sends those on to a second one, which has the rules about destinations.
 *
 * In iptables the first match decides, in the policy the longest one: with exceptions, the most specific rules come first.
 * Without exceptions the rules have the order of the config files, which is easier to read.
 */
export const renderChain = renderedOnce(render);

function render(policy: Policy, options: RuleOptions): readonly ChainRule[] {
  const { chain } = options;
  const second = secondChain(chain);
  const isLimited = verdictElsewhere(policy) === 'not_masqueraded';
  const sources = decisiveSources(policy);
  const hasExceptions = isLimited && sources.some(({ verdict }) => verdict === 'not_masqueraded');
  const elsewhere = `${comment('packets from elsewhere are not masqueraded')} -j RETURN`;
  return [
    ...(hasExceptions ? longestFirst(sources) : sources).map((entry) => renderSource(entry, chain, second)),
    ...(isLimited ? [leavesAlone(chain, elsewhere)] : []),
    ...renderDestinations(policy, options, isLimited ? second : chain),
  ];
}

function renderSource({ prefix, verdict, origin }: Entry, chain: string, second: string): ChainRule {
  const source = condition('-s', prefix);
  const why = (does: string) => comment(`packets from here are ${does} (${author(origin)})`);
  if (verdict === 'not_masqueraded')
    return leavesAlone(chain, `${source}${why(VERDICT_TEXT[verdict])} -j RETURN`);
  const spec = `${source}${why('looked at')} -g ${second}`;
  return { chain, spec, entry: undefined, verdict: undefined };
}

function leavesAlone(chain: string, spec: string): ChainRule {
  return { chain, spec, entry: undefined, verdict: 'not_masqueraded' };
}

function longestFirst(entries: readonly Entry[]): readonly Entry[] {
  return entries.toSorted((a, b) => b.prefix.length - a.prefix.length);
}

function renderDestinations(policy: Policy, options: RuleOptions, chain: string): readonly ChainRule[] {
  const hasExceptions = policy.entries.some(({ verdict }) => verdict === 'masqueraded');
  const entries = hasExceptions ? longestFirst(policy.entries) : policy.entries;
  const lastAddress = entries.findLastIndex(hasAddress);
  const end = entries.findIndex(({ verdict }, index) => index > lastAddress && verdict === 'masqueraded');
  const first = end === -1 ? entries : entries.slice(0, end);
  return [
    ...first.flatMap((entry) => [
      // Behind it, an entry of a wider prefix names an address.
      ...(entry.verdict === 'masqueraded' && !hasAddress(entry) ? [ofNode(chain, entry.prefix)] : []),
      ...renderEntry(entry, options, chain),
    ]),
    ofNode(chain),
    ...entries.slice(first.length).flatMap((entry) => renderEntry(entry, options, chain)),
    ...masquerade('', 'everything else is masqueraded (must be last in chain)', options).map(
      (spec) => ({ chain, spec, entry: undefined, verdict: 'masqueraded' }) as const,
    ),
  ];
}

function hasAddress({ as }: Entry): boolean {
  return as?.candidates?.[0] !== undefined;
}

/**
 * Asks for packets whose source is an address of the link by which they leave. Masquerading would only change their ports, and so
 * reset connections that began before the rules. Any local source would be too much: what DNAT or a mark sends out by another link.
 */
const OF_NODE = '-m addrtype --src-type LOCAL --limit-iface-out -j RETURN';

function ofNode(chain: string, prefix?: Prefix): ChainRule {
  const destination = prefix === undefined ? '' : condition('-d', prefix);
  const spec = `${destination}${comment('the node itself, from an address of the link')} ${OF_NODE}`;
  return { chain, spec, entry: undefined, verdict: undefined };
}

/** Whether the rule only concerns packets that the node itself sends. */
export function isOfNode({ spec }: Pick<ChainRule, 'spec'>): boolean {
  return spec.endsWith(OF_NODE);
}

/** The only jump to the chain. Its comment is that of ip-masq-agent v1, because other tools look for it. */
export function renderJump(chain: string): string {
  const why = `ensure nat POSTROUTING directs all non-LOCAL destination traffic to our custom ${chain} chain`;
  return `${comment(why)} -m addrtype ! --dst-type LOCAL -j ${chain}`;
}

/** The jump of ip-masq-agent-v2 and of later v1, in which the quotes are part of the comment. */
export function renderQuotedJump(chain: string): string {
  return renderJump(chain).replace(/"(.*)"/, String.raw`"\"$1\""`);
}

/** The words in the comments of v1 and v2 that this agent does not use, and the quotes in the comment of v2's jump. */
const OLDER_AGENT = / subject to (?:MASQUERADE|SNAT)\b|--comment "\\"ip-masq-agent: ensure /;

/** Whether ip-masq-agent v1 or v2 has written one of the rules: both name their chain as this agent does. */
export function isOfOlderAgent(rules: readonly string[]): boolean {
  return rules.some((rule) => OLDER_AGENT.test(rule));
}

/** A match of an address; none for a prefix of length 0, which holds every address: iptables prints nothing for it. */
function condition(option: '-s' | '-d', { length, text }: Prefix): string {
  return length === 0 ? '' : `${option} ${text} `;
}

function renderEntry(entry: Entry, options: RuleOptions, chain: string): readonly ChainRule[] {
  const destination = condition('-d', entry.prefix);
  const { candidates, range } = entry.as ?? {};
  const which = range && `, ${candidates?.[0] === undefined ? 'no address' : 'address'} in ${range.text}`;
  const why = `${VERDICT_TEXT[entry.verdict]}${which ?? ''} (${author(entry.origin)})`;
  const specs =
    entry.verdict === 'not_masqueraded'
      ? [`${destination}${comment(why)} -j RETURN`]
      : masquerade(destination, why, options, candidates?.[0]);
  return specs.map((spec) => ({ chain, spec, entry, verdict: entry.verdict }));
}

/** The rules that masquerade, as `portRules` says; with that address, if there is one. */
function masquerade(
  destination: string,
  why: string,
  options: RuleOptions,
  address?: Address,
): readonly string[] {
  return portRules(options).map(({ protocol, share, isRandom }) => {
    const match = `${destination}${protocol === undefined ? '' : `-p ${protocol} `}`;
    const random = isRandom ? ' --random-fully' : '';
    const chance =
      share === undefined || share.size === share.left
        ? ''
        : `-m statistic --mode random --probability ${probability(share.size / share.left)} `;
    const ports = share === undefined ? '' : ` --to-ports ${portsText(share.range)}`;
    const target =
      address === undefined
        ? `MASQUERADE${ports}`
        : `SNAT --to-source ${translationText(address, share?.range)}`;
    return `${match}${chance}${comment(why)} -j ${target}${random}`;
  });
}

/** The probability as the kernel rounds it, to 2^-31, and iptables prints it: otherwise every sync would differ. */
function probability(share: number): string {
  return (Math.round(share * 2 ** 31) / 2 ** 31).toFixed(11);
}

const MAX_COMMENT = 255; // XT_MAX_COMMENT_LEN of the kernel, less the terminating zero

function comment(text: string): string {
  return `-m comment --comment "${`${COMMENT_START}${text}`.slice(0, MAX_COMMENT)}"`;
}

/** The config file of an entry. No line or column: they change with other edits, and would then change the rule. */
function author(origin: Entry['origin']): string {
  if (origin.kind === 'built-in') return `default, ${origin.basis}`;
  // A ConfigMap key has only these characters. A file name may have any, and a quote would end the comment.
  return `from ${origin.configFile.replace(/[^A-Za-z0-9._-]/g, '_')}`;
}

/** XT_EXTENSION_MAXNAMELEN of the kernel, less the terminating zero. */
const MAX_CHAIN_LENGTH = 28;

/** Built-in chains, which the agent would empty, and verdicts, which cannot be names of chains. */
const BUILT_IN = /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING|ACCEPT|DROP|QUEUE|RETURN)$/;

/** What to do about rules of v1 or v2. */
export const OLDER_AGENT_REMEDY =
  'do not run both: remove the DaemonSet of the older agent, as the migration guide says (docs/migration.md)';

const SECOND = '-FROM';

/** The name of the second chain. */
export function secondChain(chain: string): string {
  return `${chain.slice(0, MAX_CHAIN_LENGTH - SECOND.length)}${SECOND}`;
}

/** Whether the agent's chain may have this name: none of iptables, kubelet and kube-proxy, and none of a second chain. */
export function isChainName(text: string): boolean {
  const valid = text.length <= MAX_CHAIN_LENGTH && /^[A-Za-z0-9_][A-Za-z0-9_-]*$/.test(text);
  return valid && !BUILT_IN.test(text) && !text.startsWith('KUBE-') && !text.endsWith(SECOND);
}
