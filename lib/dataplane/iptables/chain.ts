import type { Entry, Policy } from '../../policy/policy.ts';
import { COMMENT_START } from '../dataplane.ts';
import type { RuleOptions } from '../options.ts';
import { portRules } from '../ports.ts';

/** A rule of the agent's chain: the words after `-A CHAIN`, and the entry that asks for it. */
export interface ChainRule {
  readonly spec: string;
  /** Undefined for the last rules, which masquerade all other destinations. */
  readonly entry: Entry | undefined;
}

/**
 * The rules of the chain, in the order in which a packet meets them. In iptables the first match decides, in the policy
 * the longest one: with exceptions, the most specific rules come first. Without exceptions all entries return, and the
 * rules have the order of the sources, which is easier to read.
 */
export function renderChain(policy: Policy, options: RuleOptions): readonly ChainRule[] {
  const known = chains.get(policy);
  if (known?.options === options) return known.rules;
  const rules = render(policy, options);
  chains.set(policy, { options, rules });
  return rules;
}

/** Rendered chains: every sync and count needs the same one, and with many entries rendering is slow. */
const chains = new WeakMap<Policy, { readonly options: RuleOptions; readonly rules: readonly ChainRule[] }>();

function render(policy: Policy, options: RuleOptions): readonly ChainRule[] {
  const exceptions = policy.entries.some(({ verdict }) => verdict === 'masquerade');
  const entries = exceptions
    ? policy.entries.toSorted((a, b) => b.prefix.length - a.prefix.length)
    : policy.entries;
  return [
    ...entries.flatMap((entry) => renderEntry(entry, options)),
    ...masquerade('', 'everything else is masqueraded (must be last in chain)', options).map((spec) => ({
      spec,
      entry: undefined,
    })),
  ];
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

function renderEntry(entry: Entry, options: RuleOptions): readonly ChainRule[] {
  // A prefix of length 0 matches everything; iptables prints no -d for it.
  const destination = entry.prefix.length === 0 ? '' : `-d ${entry.prefix.text} `;
  const why = `${entry.verdict === 'return' ? 'not masqueraded' : 'masqueraded'} (${author(entry.origin)})`;
  const specs =
    entry.verdict === 'return'
      ? [`${destination}${comment(why)} -j RETURN`]
      : masquerade(destination, why, options);
  return specs.map((spec) => ({ spec, entry }));
}

/** The rules that masquerade, as `portRules` says. */
function masquerade(destination: string, why: string, options: RuleOptions): readonly string[] {
  return portRules(options).map(({ protocol, share, isRandom }) => {
    const match = `${destination}${protocol === undefined ? '' : `-p ${protocol} `}`;
    const random = isRandom ? ' --random-fully' : '';
    if (share === undefined) return `${match}${comment(why)} -j MASQUERADE${random}`;
    const { range, size, left } = share;
    const chance =
      size === left ? '' : `-m statistic --mode random --probability ${probability(size / left)} `;
    const ports = `--to-ports ${range.first}${range.last === range.first ? '' : `-${range.last}`}`;
    return `${match}${chance}${comment(why)} -j MASQUERADE ${ports}${random}`;
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

/** The source of an entry. No line or column: they change with other edits, and would then change the rule. */
function author(origin: Entry['origin']): string {
  if (origin.kind === 'built-in') return `default, ${origin.reason}`;
  // A ConfigMap key has only these characters. A file name may have any, and a quote would end the comment.
  return `from ${origin.source.replace(/[^A-Za-z0-9._-]/g, '_')}`;
}

/** XT_EXTENSION_MAXNAMELEN of the kernel, less the terminating zero. */
const MAX_CHAIN_LENGTH = 28;

/** Built-in chains, which the agent would empty, and verdicts, which cannot be names of chains. */
const BUILT_IN = [
  'PREROUTING',
  'INPUT',
  'FORWARD',
  'OUTPUT',
  'POSTROUTING',
  'ACCEPT',
  'DROP',
  'QUEUE',
  'RETURN',
];

/** Whether the text may be the name of the agent's chain. Names of iptables, kubelet and kube-proxy may not. */
export function isChainName(text: string): boolean {
  const valid = text.length <= MAX_CHAIN_LENGTH && /^[A-Za-z0-9_][A-Za-z0-9_-]*$/.test(text);
  return valid && !BUILT_IN.includes(text) && !text.startsWith('KUBE-');
}
