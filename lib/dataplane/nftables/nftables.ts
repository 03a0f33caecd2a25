import type { Family } from '../../cidr/address.ts';
import { formatRange, type Range } from '../../cidr/ranges.ts';
import type { Change } from '../../netlink/change.ts';
import { NetlinkError } from '../../netlink/error.ts';
import type { Policy } from '../../policy/policy.ts';
import {
  BY_FLAG,
  type Counts,
  type Dataplane,
  type Observed,
  type Reason,
  type RuleCount,
} from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { Host } from '../host.ts';
import { LastReading, type Reading } from '../last-reading.ts';
import { type Netlink, type Requests, whyNoNetlink } from '../netlink.ts';
import type { RuleOptions } from '../options.ts';
import { ALLOW_NETLINK, dataplaneError, lacksChainType } from './failure.ts';
import { INVALID_CHAIN, SET, TABLE } from './names.ts';
import { elementsOf, type Ruleset, readRuleset } from './observe.ts';
import { planRemoval, planTable, type TablePlan } from './plan.ts';
import { isOwn, isSameTable, ruleText, type Table, type TableChain, type TableRule } from './ruleset.ts';
import { type PolicyTable, renderTable, tableBlock } from './table.ts';
import { kernelVerdicts } from './verdict.ts';

/**
 * The policy as one interval set in the agent's table, written and read over netlink.
 *
 * @throws {DataplaneError} without netlink
 */
export function openNftables(
  options: RuleOptions,
  host: Pick<Host, 'netlink'>,
  { by, reason }: Reason = BY_FLAG,
): Dataplane {
  const { netlink } = host;
  if (netlink === undefined || netlink.isUnavailableForGood) throw needsNetlink(netlink);
  const fail = (error: unknown): never => {
    throw dataplaneError(error);
  };
  const ask = <Answer>(use: (requests: Requests) => Promise<Answer>) => netlink.use(use).catch(fail);
  const reader = new LastReading<Ruleset>(netlink, 'nftables', (requests, family, known) =>
    readRuleset(requests, family, known && elementsOf(known), options.mostObjects),
  );
  const oddities = new Map<Family, Oddity>();
  /** How many transactions this process has begun: a reading in which one begins is torn. */
  let writes = 0;

  const apply = async (policy: Policy | undefined, plan: TablePlan, from: Ruleset): Promise<void> => {
    const { family } = from;
    const last = reader.forget(family);
    writes += 1;
    await ask(async (requests) => {
      const { id: before } = await requests.generation();
      for (const transaction of plan.transactions)
        await commit(
          requests,
          transaction.map(({ change }) => change),
        );
      const { id: after } = await requests.generation();
      if (policy === undefined) return;
      const wanted = renderTable(policy, options);
      // Elements are shown as they were written, or not at all: the next reading asks for them.
      const written = { ranges: wanted.segments };
      const ruleset = await readRuleset(requests, family, written, options.mostObjects);
      const isAlone = after === before + plan.transactions.length;
      if (isAlone && ruleset.table !== undefined && !isSameTable(ruleset.table, wanted))
        oddities.set(family, { wanted, table: ruleset.table });
      if (last?.found === from && (await hasAll(requests, family, plan.added)))
        reader.keep(family, { ...last, found: ruleset, generation: after });
    });
  };

  const observed = ({ found: ruleset, generation }: Reading<Ruleset>, rewrite: boolean): Observed => {
    const { family, table } = ruleset;
    const isAsWritten = (policy: Policy) =>
      isKnownOddity(oddities.get(family), table, renderTable(policy, options));
    return {
      generation,
      plan(policy) {
        if (isAsWritten(policy)) return undefined;
        const plan = planTable(ruleset, policy, options, rewrite);
        return plan && Object.assign(plan.draft, { apply: () => apply(policy, plan, ruleset) });
      },
      planRemoval() {
        const plan = planRemoval(ruleset);
        return plan && Object.assign(plan.draft, { apply: () => apply(undefined, plan, ruleset) });
      },
      describeUndeletable: (policy) =>
        policy !== undefined && table !== undefined && isAsWritten(policy) ? [oddityText(family)] : [],
      verdicts: () => kernelVerdicts(family, table),
      text: () => (table !== undefined && isOwn(table) ? tableBlock(table) : undefined),
    };
  };

  return {
    name: 'nftables',
    reason,
    chosenBy: by,
    iptables: undefined,
    get hearsChanges() {
      return !netlink.isUnavailableForGood;
    },
    ruleCount: (policy) => renderTable(policy, options).segments.length,
    observe: async (family, rewrite = false) =>
      observed(await reader.read(family, rewrite).catch(fail), rewrite),
    async count(policy) {
      const before = writes;
      const { table } = await ask((requests) =>
        readRuleset(requests, policy.family, undefined, options.mostObjects),
      );
      if (writes !== before)
        throw new DataplaneError(
          'raced',
          'the rules were changed while they were counted',
          'count them again',
        );
      return table !== undefined && isOwn(table)
        ? countTable(table, renderTable(policy, options))
        : { incarnation: 0, rules: [] };
    },
  };
}

/** Commits, and tells a chain of a type that the kernel does not know from a table that is gone. */
async function commit(requests: Requests, changes: readonly Change[]): Promise<void> {
  try {
    await requests.commit(changes);
  } catch (error) {
    const chain = changes.find(({ kind }) => kind === 'add chain');
    const isOfChain =
      error instanceof NetlinkError &&
      error.code === 'ENOENT' &&
      error.message.startsWith('cannot add chain');
    if (!isOfChain || chain === undefined) throw error;
    throw (await requests.table(chain)) === undefined ? error : lacksChainType(error.message);
  }
}

/** So many elements are asked for one by one, instead of reading the whole set. */
const MOST_ASKED = 100;

/** Whether the kernel holds these elements; false if there are too many to ask for each. */
async function hasAll(
  requests: Requests,
  family: Family,
  added: readonly Range[] | undefined,
): Promise<boolean> {
  if (added === undefined || added.length > MOST_ASKED) return false;
  for (const range of added)
    if (!(await requests.hasRange({ family, table: TABLE, set: SET }, range))) return false;
  return true;
}

/** What the agent has written, and how the kernel shows it. */
interface Oddity {
  readonly wanted: PolicyTable;
  readonly table: Table;
}

/** Whether the kernel shows exactly what it showed right after the agent had written this policy. */
function isKnownOddity(oddity: Oddity | undefined, table: Table | undefined, wanted: PolicyTable): boolean {
  if (oddity === undefined || table === undefined) return false;
  return isSameTable(oddity.wanted, wanted) && isSameTable(oddity.table, table);
}

function oddityText(family: Family): string {
  return `the kernel shows the ${family} rules in another way than they were written; they are in place, and not written again: report this, with the version of the kernel`;
}

function needsNetlink(netlink: Netlink | undefined): DataplaneError {
  return new DataplaneError(
    'missing',
    `nftables needs netlink, which does not work here: ${whyNoNetlink(netlink)}`,
    `remove --netlink=off, ${ALLOW_NETLINK}`,
  );
}

/**
 * The counts of each element and of each rule that counts. Exceptions have no element: they are counted with everything
 * else that is masqueraded.
 */
function countTable(table: Table, { segments }: PolicyTable): Counts {
  const { family, handle = 0 } = table;
  const set = table.sets.find(({ name }) => name === SET);
  const entries = new Map(segments.map(({ first, last, entry }) => [`${first} ${last}`, entry]));
  const elements = set?.ranges?.flatMap(({ packets = 0n, ...range }): readonly RuleCount[] => {
    const entry = entries.get(`${range.first} ${range.last}`);
    const rule = `${set.handle} ${formatRange(family, range)}`;
    return entry === undefined ? [] : [{ ruleId: rule, entry, countedAs: 'not_masqueraded', packets }];
  });
  const rules = table.chains.flatMap((chain) =>
    chain.rules.flatMap((rule): readonly RuleCount[] => {
      const { packets, handle: number } = rule;
      const text = `${number} ${ruleText(family, rule)}`;
      return packets === undefined
        ? []
        : [{ ruleId: text, entry: undefined, countedAs: countedAs(chain, rule), packets }];
    }),
  );
  return { incarnation: handle, rules: [...(elements ?? []), ...rules] };
}

function countedAs(chain: TableChain, { statements }: TableRule): RuleCount['countedAs'] {
  if (chain.name === INVALID_CHAIN) return 'invalid';
  const returns = statements.some((one) => one.kind === 'verdict' && one.verdict === 'return');
  return returns ? 'not_masqueraded' : 'masqueraded';
}
