import type { Family } from '../../cidr/address.ts';
import { complement, nothing, type Range, rangeSet } from '../../cidr/ranges.ts';
import { uniformVerdicts } from '../../policy/verdicts.ts';
import type { KernelVerdicts } from '../dataplane.ts';
import { firstMatches } from '../first-match.ts';
import { type Condition, type Outcome, type Rule, ruleOf, type Test } from '../rule.ts';
import { outcomeOf, testOf } from './meaning.ts';
import {
  CHAIN,
  FROM_SET,
  HOOK,
  INVALID_CHAIN,
  INVALID_HOOK,
  NFT_FAMILY,
  NOT_FROM_SET,
  purposeOf,
  SET,
} from './names.ts';
import { chainProperties, isOwn, ruleText, type Table, type TableChain, type TableRule } from './ruleset.ts';
import { KEYS, type Match, type Statement, statementText } from './statement.ts';

export function kernelVerdicts(family: Family, table: Table | undefined): KernelVerdicts {
  const leftAlone = uniformVerdicts(family, { verdict: 'not_masqueraded' });
  if (table === undefined || !isOwn(table)) return { state: 'no chain', ...leftAlone };
  const entered = table.chains.filter(({ hook }) => hook !== undefined);
  const hooked = entered.filter((chain) => !isOfInvalid(family, chain));
  const isNamed = ({ name }: TableChain) => name === CHAIN;
  const own = hooked.find(isNamed) ?? hooked[0];
  if (own === undefined && !table.chains.some(isNamed)) return { state: 'no chain', ...leftAlone };
  if (own === undefined || table.flags.includes('dormant')) return { state: 'no jump', ...leftAlone };
  // Another chain that packets enter, or another hook, may do anything.
  const foreign = hooked.filter((chain) => chain !== own || !isPostrouting(chain, HOOK.type));
  const start = `${NFT_FAMILY[family].protocol} ${own.name}: `;
  const rules = [
    ...foreign.map((chain) =>
      ruleOf(family, `${start}${hookOf(chain)}`, [conditionOf(hookOf(chain))], { kind: 'else' }),
    ),
    ...own.rules.flatMap((rule) => readRule(family, rule, start, table)),
  ].filter(({ destinations }) => destinations.ranges.length > 0);
  // What is left alone because of its source comes first.
  const elsewhere = rules[0]?.outcome.kind === 'returns' ? rules[0].conditions[0]?.sources : undefined;
  const behind = elsewhere === undefined ? rules : rules.slice(1);
  const from = elsewhere && complement(elsewhere);
  return { state: 'applied', ...firstMatches(family, behind), from, invalid: invalidIn(entered) };
}

function hookOf(chain: TableChain): string {
  return chainProperties(chain).at(-1) ?? '';
}

function isPostrouting({ hook }: TableChain, type: string): boolean {
  return hook?.type === type && hook.number === HOOK.number && hook.policy === HOOK.policy;
}

/** Whether a chain decides about packets of no connection alone. */
function isOfInvalid(family: Family, chain: TableChain): boolean {
  return (
    isPostrouting(chain, INVALID_HOOK.type) &&
    chain.rules.every(({ statements }) => asksInvalid(family, statements[0]))
  );
}

function asksInvalid(family: Family, statement: Statement | undefined): boolean {
  const state = statement && statementText(family, statement);
  return state !== undefined && /^ct state (?:invalid|untracked|invalid,untracked)$/.test(state);
}

function invalidIn(chains: readonly TableChain[]): KernelVerdicts['invalid'] {
  const [rule] = chains.find(({ name }) => name === INVALID_CHAIN)?.rules ?? [];
  if (rule === undefined) return undefined;
  const drops = rule.statements.some((one) => one.kind === 'verdict' && one.verdict === 'drop');
  return drops ? 'dropped' : 'counted';
}

/** A rule of a chain: one for each element of the set, if it asks for the set. */
function readRule(family: Family, rule: TableRule, start: string, table: Table): readonly Rule[] {
  const text = `${start}${ruleText(family, rule)}`;
  const outcomes = rule.statements.flatMap((one) => outcomeIn(family, one) ?? []);
  // A statement that is not understood may decide, unless another one does behind it.
  const isUnclear = rule.statements.some(isOfOthers);
  const outcome: Outcome = outcomes.at(-1) ?? { kind: isUnclear ? 'else' : 'goes on' };
  const isOwnSet = (one: Statement): one is Match & { readonly set: string } =>
    one.kind === 'match' &&
    KEYS_OF_DESTINATION.includes(one.key) &&
    'set' in one &&
    purposeOf(one.set) === SET &&
    one.isNot !== true;
  const lookup = rule.statements.find(isOwnSet);
  const name = lookup?.set ?? '';
  const set = table.sets.find((one) => one.name === name);
  const tests = rule.statements.filter((one) => one !== lookup).map((one) => ownTest(family, one, table));
  if (lookup === undefined) return [ruleOf(family, text, tests, outcome)];
  const ranges = (set?.ranges ?? []).map((range): Rule => {
    const elementText = `${text}, element ${addressText(family, range)}`;
    return ruleOf(family, elementText, [{ family, ranges: [range] }, ...tests], outcome);
  });
  const others = set?.hasOthers === true || set?.ranges === undefined ? [conditionOf(`@${name}`)] : undefined;
  return others === undefined ? ranges : [...ranges, ruleOf(family, text, [...others, ...tests], outcome)];
}

/** What the agent never writes, and what packets may not pass. */
function isOfOthers(statement: Statement): boolean {
  return statement.kind === 'vmap' || (statement.kind === 'other' && !statement.passes);
}

/** The agent's chains lead to no other chain. */
function outcomeIn(family: Family, statement: Statement): Outcome | undefined {
  if (isOfOthers(statement)) return undefined;
  const outcome = outcomeOf(family, statement);
  return outcome && 'chain' in outcome ? { kind: 'else' } : outcome;
}

function ownTest(family: Family, statement: Statement, { sets }: Table): Test {
  if (isOfOthers(statement)) return conditionOf(statementText(family, statement));
  // Verdicts are those of packets of pods.
  if (statementText(family, statement) === 'fib saddr . oif type local') return nothing(family);
  const addressesIn = (name: string) => {
    const set = sets.find((one) => one.name === name);
    return set?.ranges === undefined || set.hasOthers === true ? undefined : rangeSet(family, set.ranges);
  };
  const test = testOf({ family, addressesIn }, statement);
  // Sources that are left alone are known by the agent's own rule alone.
  return test !== undefined && 'sources' in test && !asksSources(statement) ? conditionOf(test.text) : test;
}

/** Whether it asks for packets that are left alone because of their source. */
function asksSources(statement: Statement): boolean {
  if (statement.kind !== 'match' || !('set' in statement)) return false;
  return purposeOf(statement.set) === (statement.isNot === true ? FROM_SET : NOT_FROM_SET);
}

const KEYS_OF_DESTINATION: readonly string[] = ['ip daddr', 'ip6 daddr'];

function addressText(family: Family, range: Range): string {
  return KEYS[family === 'IPv4' ? 'ip daddr' : 'ip6 daddr'].write(range);
}

function conditionOf(text: string): Condition {
  return { text };
}
