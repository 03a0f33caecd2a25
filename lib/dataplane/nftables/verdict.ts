import type { Family } from '../../cidr/address.ts';
import { complement, nothing, type Range, type RangeSet, rangeSet } from '../../cidr/ranges.ts';
import { uniformVerdicts } from '../../policy/verdicts.ts';
import type { KernelVerdicts } from '../dataplane.ts';
import { firstMatches } from '../first-match.ts';
import { type Condition, type Outcome, type Rule, ruleOf, type Test } from '../rule.ts';
import { CHAIN, FROM_SET, HOOK, INVALID_CHAIN, INVALID_HOOK, NFT_FAMILY, SET } from './names.ts';
import { chainProperties, isOwn, ruleText, type Table, type TableChain, type TableRule } from './ruleset.ts';
import { INVALID, KEYS, LOCAL, type Statement, statementText } from './statement.ts';

export function kernelVerdicts(family: Family, table: Table | undefined): KernelVerdicts {
  const leftAlone = uniformVerdicts(family, { verdict: 'not_masqueraded' });
  if (table === undefined || !isOwn(table)) return { state: 'no chain', ...leftAlone };
  const entered = table.chains.filter(({ hook }) => hook !== undefined);
  const hooked = entered.filter((chain) => !isOfInvalid(chain));
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
  // What comes from elsewhere is left alone first.
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
function isOfInvalid(chain: TableChain): boolean {
  return (
    isPostrouting(chain, INVALID_HOOK.type) &&
    chain.rules.every(({ statements }) => asksInvalid(statements[0]))
  );
}

function asksInvalid(statement: Statement | undefined): boolean {
  return (
    statement?.kind === 'match' &&
    statement.key === 'ct state' &&
    'bits' in statement &&
    statement.bits === INVALID &&
    statement.isNot !== true
  );
}

function invalidIn(chains: readonly TableChain[]): KernelVerdicts['invalid'] {
  const [rule] = chains.find(({ name }) => name === INVALID_CHAIN)?.rules ?? [];
  if (rule === undefined) return undefined;
  const drops = rule.statements.some((one) => one.kind === 'verdict' && one.verdict === 'drop');
  return drops ? 'dropped' : 'counted';
}

/** What a rule does with a packet; undefined if the next rule follows. */
function outcomeOf(family: Family, statement: Statement): Outcome | undefined {
  switch (statement.kind) {
    case 'masquerade':
      return { kind: 'masquerades' };
    case 'snat': {
      const [, to = ''] = / to (\S+)/.exec(statementText(family, statement)) ?? [];
      return { kind: 'masquerades', to };
    }
    case 'verdict':
      if (statement.verdict === 'continue') return undefined;
      if (statement.verdict === 'accept') return { kind: 'ends' };
      return statement.verdict === 'return' ? { kind: 'returns' } : { kind: 'else' };
    default:
      return undefined;
  }
}

/** A rule of a chain: one for each element of the set, if it asks for the set. */
function readRule(family: Family, rule: TableRule, start: string, table: Table): readonly Rule[] {
  const text = `${start}${ruleText(family, rule)}`;
  const asks = rule.statements.filter(isTest);
  const outcomes = rule.statements.flatMap((one) => (isTest(one) ? [] : (outcomeOf(family, one) ?? [])));
  // A statement that is not understood may decide, unless another one does behind it.
  const isUnclear = asks.some(({ kind }) => kind === 'other');
  const outcome: Outcome = outcomes.at(-1) ?? { kind: isUnclear ? 'else' : 'goes on' };
  const isOwnSet = (one: Statement) =>
    one.kind === 'match' &&
    KEYS_OF_DESTINATION.includes(one.key) &&
    'set' in one &&
    one.set === SET &&
    one.isNot !== true;
  const lookup = asks.find(isOwnSet);
  const set = table.sets.find(({ name }) => name === SET);
  const tests = asks.filter((one) => one !== lookup).map((one) => testOf(family, one, table));
  if (lookup === undefined) return [ruleOf(family, text, tests, outcome)];
  const isPlain = tests.length === 0;
  const ranges = (set?.ranges ?? []).map(({ first, last: end }): Rule => {
    const range = { first, last: end };
    const elementText = `${text}, element ${addressText(family, range)}`;
    if (!isPlain) return ruleOf(family, elementText, [{ family, ranges: [range] }, ...tests], outcome);
    // As `ruleOf` makes it, which takes long for many elements.
    return { text: elementText, destinations: { family, ranges: [range] }, conditions: [], outcome };
  });
  const others = set?.hasOthers === true || set?.ranges === undefined ? [conditionOf(`@${SET}`)] : undefined;
  return others === undefined ? ranges : [...ranges, ruleOf(family, text, [...others, ...tests], outcome)];
}

const KEYS_OF_DESTINATION: readonly string[] = ['ip daddr', 'ip6 daddr'];

function addressText(family: Family, range: Range): string {
  return KEYS[family === 'IPv4' ? 'ip daddr' : 'ip6 daddr'].write(range);
}

/** Whether a statement asks something of a packet, or may: what is not understood asks something unless packets pass it. */
function isTest(statement: Statement): boolean {
  return (
    statement.kind === 'match' ||
    statement.kind === 'chance' ||
    (statement.kind === 'other' && !statement.passes)
  );
}

function testOf(family: Family, statement: Statement, table: Table): Test {
  const condition = conditionOf(statementText(family, statement));
  if (statement.kind !== 'match') return condition;
  const { key, isNot = false } = statement;
  // Packets to the node itself are none of the agent's business.
  const isLocal = key === 'fib daddr type' && 'range' in statement && statement.range.first === LOCAL;
  if (isLocal) return isNot ? undefined : nothing(family);
  const addresses = addressesOf(family, statement, table);
  if (addresses === undefined) return condition;
  const set = isNot ? complement(addresses) : addresses;
  if (KEYS_OF_DESTINATION.includes(key)) return set;
  return isFromSet(statement) ? { ...condition, sources: set } : condition;
}

function isFromSet(statement: Statement): boolean {
  return (
    statement.kind === 'match' && 'set' in statement && statement.set === FROM_SET && statement.isNot === true
  );
}

/** The addresses that a match asks for; undefined if it asks for something else. */
function addressesOf(
  family: Family,
  match: Extract<Statement, { readonly kind: 'match' }>,
  { sets }: Table,
): RangeSet | undefined {
  if (!/^ip6? [sd]addr$/.test(match.key)) return undefined;
  if ('range' in match) return { family, ranges: [match.range] };
  if (!('set' in match)) return undefined;
  const set = sets.find(({ name }) => name === match.set);
  return set?.ranges === undefined || set.hasOthers === true ? undefined : rangeSet(family, set.ranges);
}

function conditionOf(text: string): Condition {
  return { text, isSteady: false };
}
