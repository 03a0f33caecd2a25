import type { Family } from '../../cidr/address.ts';
import { complement, everything, formatRange, type RangeSet, rangeSet } from '../../cidr/ranges.ts';
import { uniformVerdicts } from '../../policy/verdicts.ts';
import type { KernelVerdicts } from '../dataplane.ts';
import { firstMatches } from '../first-match.ts';
import type { Rule } from '../rule.ts';
import { CHAIN, HOOK, INVALID_CHAIN, INVALID_HOOK, NFT_FAMILY } from './names.ts';
import { chainLine, isOwn, ruleText, type Table, type TableChain, type TableRule } from './ruleset.ts';

/** What the agent's rules do, as their sets in the kernel say. What is not the agent's may do anything. */
export function kernelVerdicts(family: Family, table: Table | undefined): KernelVerdicts {
  const leftAlone = uniformVerdicts(family, { verdict: 'not_masqueraded' });
  const own = table?.chains.find(({ name }) => name === CHAIN);
  const entered = table?.chains.filter(({ hook }) => hook !== undefined) ?? [];
  const hasAny = own !== undefined || entered.length > 0;
  if (table === undefined || !hasAny || !isOwn(table)) return { state: 'no chain', ...leftAlone };
  if (entered.length === 0 || table.flags.includes('dormant')) return { state: 'no jump', ...leftAlone };
  const start = `${NFT_FAMILY[family].protocol} ${CHAIN}: `;
  const changed = entered.filter((chain) => !isAsMade(chain));
  const [first, ...others] = (own?.rules ?? [])
    .filter((rule) => rule.own?.effect.kind !== 'of the node')
    .map((rule) => ({ rule, text: `${start}${ruleText(rule)}` }));
  const elsewhere = first && sourcesLeftAlone(table, first.rule);
  const behind = first === undefined || elsewhere !== undefined ? others : [first, ...others];
  const rules = [
    ...changed.map((chain) => unclear(family, `${start}${chainLine(chain)}`)),
    ...behind.flatMap(({ rule, text }) => readRule(table, rule, text)),
  ];
  const from = elsewhere && complement(elsewhere);
  return { state: 'applied', ...firstMatches(family, rules), from };
}

/** Whether packets enter it where they enter the agent's chain of this name; the rules of the other one are known. */
function isAsMade({ name, hook, rules }: TableChain): boolean {
  const meant = { [CHAIN]: HOOK, [INVALID_CHAIN]: INVALID_HOOK }[name];
  const isHooked = (['type', 'number', 'policy'] as const).every((key) => hook?.[key] === meant?.[key]);
  return isHooked && (name === CHAIN || rules.every(({ own }) => own?.effect.kind === 'invalid'));
}

function sourcesLeftAlone(table: Table, { own }: TableRule): RangeSet | undefined {
  if (own?.effect.kind !== 'source left alone') return undefined;
  const { set, isNot } = own.effect;
  const addresses = addressesIn(table, set);
  return addresses && isNot ? complement(addresses) : addresses;
}

/** The addresses in a set; undefined if it holds anything else, or is not there. */
function addressesIn({ family, sets }: Table, name: string): RangeSet | undefined {
  const set = sets.find((one) => one.name === name);
  return set?.ranges === undefined || set.hasOthers === true ? undefined : rangeSet(family, set.ranges);
}

/** A rule of the chain: one for each element of the set, if it asks for that. */
function readRule(table: Table, { own }: TableRule, text: string): readonly Rule[] {
  const { family } = table;
  switch (own?.effect.kind) {
    case 'of the node':
      return [];
    case 'destination left alone': {
      const addresses = addressesIn(table, own.effect.set);
      if (addresses === undefined) return [unclear(family, text)];
      return addresses.ranges.map((range): Rule => {
        const destinations = { family, ranges: [range] };
        const elementText = `${text}, element ${formatRange(family, range)}`;
        return { text: elementText, destinations, conditions: [], outcome: { kind: 'returns' } };
      });
    }
    case 'masquerades': {
      const { destinations, to, isPartial } = own.effect;
      const conditions = isPartial ? [{ text }] : [];
      const ranges = { family, ranges: [destinations] };
      return [{ text, destinations: ranges, conditions, outcome: { kind: 'masquerades', to } }];
    }
    default:
      return [unclear(family, text)];
  }
}

/** It may do anything with any packet. */
function unclear(family: Family, text: string): Rule {
  return { text, destinations: everything(family), conditions: [{ text }], outcome: { kind: 'else' } };
}
