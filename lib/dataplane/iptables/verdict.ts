import { ADDRESS_BITS, type Address } from '../../cidr/address.ts';
import { covers, type Prefix, parsePrefix, prefixAt } from '../../cidr/prefix.ts';
import type { KernelVerdict } from '../dataplane.ts';
import { COMMENT_START } from '../dataplane.ts';
import type { IptablesObservation } from './observe.ts';
import { ruleTarget, ruleWords } from './rule.ts';

/**
 * What the chain does with packets to an address. The first rule decides that asks for the destination only. If a
 * foreign rule before it holds the address and asks for more, the state is `changed`.
 */
export function kernelVerdict(
  { rules, jumps }: IptablesObservation,
  chain: string,
  address: Address,
): KernelVerdict {
  if (rules === undefined) return { state: 'no chain', verdict: 'return', rule: undefined };
  if (!jumps.some((spec) => leadsIn(spec, chain)))
    return { state: 'no jump', verdict: 'return', rule: undefined };
  const rule = rules.map(parseRule).find((one) => holds(one, address) && !one.isPortRule);
  if (rule === undefined) return { state: 'applied', verdict: 'return', rule: undefined };
  return {
    state: rule.isDecisive ? 'applied' : 'changed',
    verdict: rule.target === 'MASQUERADE' ? 'masquerade' : 'return',
    rule: `-A ${chain} ${rule.spec}`,
  };
}

interface ParsedRule {
  readonly spec: string;
  readonly target: string | undefined;
  readonly destination: Prefix | undefined;
  /** Whether it asks for the destination only, and returns or masquerades. */
  readonly isDecisive: boolean;
  /** Whether it is one of the agent's rules with ports; a rule without ports, with the same verdict, follows them. */
  readonly isPortRule: boolean;
}

function parseRule(spec: string): ParsedRule {
  const words = withoutComment(ruleWords(spec));
  const target = ruleTarget(spec);
  const at = words[0] === '-d' ? 1 : -1;
  const parsed = parsePrefix(words[at] ?? '');
  const rest = words.slice(at + 1).filter((word) => word !== '--random-fully' && word !== '--random');
  const isDecisive =
    rest.length === 2 && rest[0] === '-j' && ['RETURN', 'ACCEPT', 'MASQUERADE'].includes(rest[1] ?? '');
  const isPortRule =
    spec.includes(`"${COMMENT_START}`) && target === 'MASQUERADE' && rest.includes('--to-ports');
  return {
    spec,
    target,
    destination: 'prefix' in parsed ? parsed.prefix : undefined,
    isDecisive,
    isPortRule,
  };
}

/** Whether the rule may hold the address; a rule without a plain destination may hold any. */
function holds({ destination }: ParsedRule, { family, value }: Address): boolean {
  return destination === undefined || covers(destination, prefixAt(family, value, ADDRESS_BITS[family]));
}

/** Whether every packet to another host takes the jump. */
function leadsIn(jump: string, chain: string): boolean {
  const words = withoutComment(ruleWords(jump)).join(' ');
  return words === `-j ${chain}` || words === `-m addrtype ! --dst-type LOCAL -j ${chain}`;
}

function withoutComment(words: readonly string[]): readonly string[] {
  const at = words.indexOf('--comment');
  return at === -1 ? words : words.toSpliced(at - 2, 4);
}
