import { ADDRESS_BITS, type Family } from '../../cidr/address.ts';
import type { Expression } from '../../netlink/expressions.ts';
import type { PortOptions } from '../ports.ts';
import { FROM_SET, NOT_FROM_SET, purposeOf, SET } from './names.ts';
import { FIELDS } from './parts.ts';
import { invalidRule, natRules, type OwnRule, type RuleInputs } from './rules.ts';

/**
 * Tells the agent's rules from others: what a table says of sets and addresses is rendered anew, and a rule is the agent's if it has
 * the same expressions. So no expression of others needs to be understood.
 *
 * @returns the rule of the agent with the same expressions, if it is one with these flags
 */
export function recogniser(
  family: Family,
  rules: readonly (readonly Expression[])[],
  options: PortOptions,
): (expressions: readonly Expression[]) => OwnRule | undefined {
  const sets = new Set(rules.flatMap((one) => one.flatMap(setIn)));
  const named = (purpose: string) => [...sets].filter((name) => purposeOf(name) === purpose);
  const sources: readonly RuleInputs['sources'][] = [
    undefined,
    ...named(FROM_SET).map((set) => ({ set, areAllowed: true })),
    ...named(NOT_FROM_SET).map((set) => ({ set, areAllowed: false })),
  ];
  const addresses = rules.flatMap((one) => addressIn(family, one));
  const own = new Map<string, OwnRule>();
  for (const destinations of [SET, ...named(SET)])
    for (const from of sources) {
      // Rules with addresses look up no set, so they are the same with each of these: the first time is enough.
      const inputs = { family, destinations, sources: from, addresses: own.size === 0 ? addresses : [] };
      const all = [...natRules(inputs, options), invalidRule(inputs, 'count'), invalidRule(inputs, 'drop')];
      for (const one of all) own.set(rawText(one.expressions), one);
    }
  return (expressions) => own.get(rawText(expressions));
}

function setIn(expression: Expression): readonly string[] {
  return expression.name === 'lookup' && expression.set !== undefined ? [expression.set] : [];
}

/** The destination that a rule asks for, and the address that it gives to packets, if it begins as such a rule of the agent. */
function addressIn(family: Family, expressions: readonly Expression[]): RuleInputs['addresses'] {
  const nat = expressions.find((one) => one.name === 'nat');
  const value = expressions.find((one) => one.name === 'immediate' && one.to === nat?.fromAddress);
  const address =
    value?.name === 'immediate' && value.value ? { family, value: BigInt(`0x${value.value}`) } : undefined;
  const [load, second, third] = expressions;
  const mask = second?.name === 'bitwise' ? second.mask : undefined;
  const compared = mask === undefined ? second : third;
  const isOfDestination = load?.name === 'payload' && load.offset === FIELDS[family].destination.offset;
  if (!isOfDestination || compared?.name !== 'cmp' || compared.value === undefined)
    return address ? [{ prefix: { family, address: 0n, length: 0 }, address }] : [];
  const length = mask === undefined ? 4 * compared.value.length : onesIn(mask);
  const first = BigInt(`0x${compared.value.padEnd(ADDRESS_BITS[family] / 4, '0')}`);
  return [{ prefix: { family, address: first, length }, address }];
}

function onesIn(mask: string): number {
  return BigInt(`0x${mask || 0}`)
    .toString(2)
    .replaceAll('0', '').length;
}

/** All that the kernel sends for expressions but counts: equal for equal rules. */
export function rawText(expressions: readonly Expression[]): string {
  const texts = expressions.map(({ name, ...values }) => {
    if (name === 'counter') return '[counter]';
    const known = Object.entries(values).filter(([, value]) => value !== undefined);
    const parts = known
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, value]) => `${key} ${typeof value === 'object' ? JSON.stringify(value) : value}`);
    return `[${[name, ...parts].join(' ')}]`;
  });
  return texts.join(' ');
}
