import type { Family } from '../../cidr/address.ts';
import { complement, everything, formatRange, type RangeSet, rangeSet } from '../../cidr/ranges.ts';
import { uniformVerdicts } from '../../policy/verdicts.ts';
import type { KernelVerdicts } from '../dataplane.ts';
import { firstMatches, type Step } from '../first-match.ts';
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
    ...behind.flatMap(({ rule, text }) => stepsOf(table, rule, text)),
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

/** What a rule of the chain does: a step for each element of the set, if it asks for that. */
function stepsOf(table: Table, { own }: TableRule, text: string): readonly Step[] {
  const { family } = table;
  switch (own?.effect.kind) {
    case 'of the node':
      return [];
    case 'destination left alone': {
      const addresses = addressesIn(table, own.effect.set);
      if (addresses === undefined) return [unclear(family, text)];
      return addresses.ranges.map((range): Step => {
        const elementText = `${text}, element ${formatRange(family, range)}`;
        return { text: elementText, ranges: [range], verdict: 'not_masqueraded', isPartial: false };
      });
    }
    case 'masquerades': {
      const { destinations, as, isPartial } = own.effect;
      return [{ text, ranges: [destinations], verdict: 'masqueraded', as, isPartial }];
    }
    default:
      return [unclear(family, text)];
  }
}

/** It may do anything with any packet. */
function unclear(family: Family, text: string): Step {
  return { text, ranges: everything(family).ranges, verdict: undefined, isPartial: true };
}
