import { ADDRESS_BITS, type Address } from '../../cidr/address.ts';
import { covers, parsePrefix, prefixAt } from '../../cidr/prefix.ts';
import type { KernelVerdict } from '../dataplane.ts';
import type { IptablesObservation } from './observe.ts';
import { ruleTarget, ruleWords } from './rule.ts';

/** What the chain does with packets to an address: the first rule decides that asks for nothing but the destination. */
export function kernelVerdict(
  { rules, jumps }: IptablesObservation,
  chain: string,
  address: Address,
): KernelVerdict {
  if (rules === undefined) return { state: 'no chain', verdict: 'return', rule: undefined };
  if (jumps.length === 0) return { state: 'no jump', verdict: 'return', rule: undefined };
  const rule = rules.find((spec) => isDecisive(spec) && holds(spec, address));
  const masquerades = rule !== undefined && ruleTarget(rule) === 'MASQUERADE';
  return {
    state: 'applied',
    verdict: masquerades ? 'masquerade' : 'return',
    rule: rule === undefined ? undefined : `-A ${chain} ${rule}`,
  };
}

/** Words of our own rules that have no say in which packet they match, or only by its destination. */
const HARMLESS = /^(?:-d|-m comment|--comment|--random-fully|--random|-j (?:RETURN|MASQUERADE|ACCEPT))$/;

function isDecisive(spec: string): boolean {
  const words = ruleWords(spec);
  const options = words.flatMap((word, index) => {
    if (!word.startsWith('-') || words[index - 1] === '--comment') return word === '!' ? [word] : [];
    return ['-m', '-j', '-g'].includes(word) ? [`${word} ${words[index + 1]}`] : [word];
  });
  return options.every((option) => HARMLESS.test(option));
}

function holds(spec: string, { family, value }: Address): boolean {
  const words = ruleWords(spec);
  const at = words.indexOf('-d');
  if (at === -1) return true;
  const parsed = parsePrefix(words[at + 1] ?? '');
  return 'prefix' in parsed && covers(parsed.prefix, prefixAt(family, value, ADDRESS_BITS[family]));
}
