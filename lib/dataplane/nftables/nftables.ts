import type { Family } from '../../cidr/address.ts';
import type { Change } from '../../netlink/change.ts';
import { NetlinkError } from '../../netlink/error.ts';
import type { Policy } from '../../policy/policy.ts';
import { BY_FLAG, type Dataplane, type EntryCount, type Observed, type Reason } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { Host } from '../host.ts';
import { type Netlink, type Requests, whyNoNetlink } from '../netlink.ts';
import type { RuleOptions } from '../options.ts';
import { ALLOW_NETLINK, dataplaneError, lacksChainType } from './failure.ts';
import { INVALID_CHAIN, SET } from './names.ts';
import { type Ruleset, readRuleset } from './observe.ts';
import { planRemoval, planTable, type TablePlan } from './plan.ts';
import { isOwn, isSameTable, type Table, type TableChain, type TableRule } from './ruleset.ts';
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
  const readRules = (requests: Requests, family: Family) =>
    readRuleset(requests, family, options.mostObjects);
  /** What the agent has written, and how the kernel shows it. */
  const oddities = new Map<Family, { readonly wanted: PolicyTable; readonly table: Table }>();
  /** What was written last, and how many transactions of other programs the generation had counted before. */
  const written = new Map<Family, { readonly wanted: PolicyTable; readonly foreign: number }>();
  /** How many transactions of this process are carried out, or begun. */
  let commits = 0;

  const apply = async (policy: Policy | undefined, plan: TablePlan, family: Family): Promise<void> => {
    written.delete(family);
    await ask(async (requests) => {
      // The other family may commit before the answer is here.
      const before = commits;
      const foreign = (await requests.generation()).id - before;
      for (const transaction of plan.transactions) {
        commits += 1;
        try {
          await commit(
            requests,
            transaction.map(({ change }) => change),
          );
        } catch (error) {
          commits -= 1;
          throw error;
        }
      }
      if (policy !== undefined) written.set(family, { wanted: renderTable(policy, options), foreign });
    });
  };

  /** Reads the rules. Takes note if they are not shown as they were written, although no other program has changed anything. */
  const read = async (requests: Requests, family: Family): Promise<Ruleset> => {
    const ruleset = await readRules(requests, family);
    const { table } = ruleset;
    const last = written.get(family);
    const isAlone = last?.foreign === (await requests.generation()).id - commits;
    if (last !== undefined && table !== undefined && isAlone && !isSameTable(table, last.wanted))
      oddities.set(family, { wanted: last.wanted, table });
    return ruleset;
  };

  const observed = (ruleset: Ruleset, generation: number, rewrite: boolean): Observed => {
    const { family, table } = ruleset;
    /** Whether the kernel shows exactly what it showed right after the agent had written this policy. */
    const isOdd = (policy: Policy) => {
      const oddity = oddities.get(family);
      if (oddity === undefined || table === undefined) return false;
      return isSameTable(oddity.wanted, renderTable(policy, options)) && isSameTable(oddity.table, table);
    };
    return {
      generation,
      plan(policy) {
        if (isOdd(policy)) return undefined;
        const plan = planTable(ruleset, policy, options, rewrite);
        return plan && { ...plan.draft, apply: () => apply(policy, plan, family) };
      },
      planRemoval() {
        const plan = planRemoval(ruleset);
        return plan && { ...plan.draft, apply: () => apply(undefined, plan, family) };
      },
      describeUndeletable: (policy) => (policy !== undefined && isOdd(policy) ? [oddityText(family)] : []),
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
    async observe(family, rewrite = false) {
      const { found, generation } = await netlink.read((requests) => read(requests, family)).catch(fail);
      return observed(found, generation, rewrite);
    },
    async count(policy) {
      const { table } = await ask((requests) => readRules(requests, policy.family));
      return table !== undefined && isOwn(table) ? countTable(table, renderTable(policy, options)) : [];
    },
  };
}

/** Commits, and tells a chain of a type that the kernel does not know from a table that is gone. */
async function commit(requests: Requests, changes: readonly Change[]): Promise<void> {
  try {
    await requests.commit(changes);
  } catch (error) {
    if (!(error instanceof NetlinkError) || error.code !== 'ENOENT') throw error;
    const change = changes[error.at?.request ?? -1];
    if (change?.kind !== 'add chain') throw error;
    throw (await requests.table(change)) === undefined ? error : lacksChainType(error.message);
  }
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
function countTable(table: Table, { segments }: PolicyTable): readonly EntryCount[] {
  const set = table.sets.find(({ name }) => name === SET);
  const entries = new Map(segments.map(({ first, last, entry }) => [`${first} ${last}`, entry]));
  const elements = set?.ranges?.flatMap(({ first, last, packets = 0n }): readonly EntryCount[] => {
    const entry = entries.get(`${first} ${last}`);
    return entry === undefined ? [] : [{ entry, countedAs: 'not_masqueraded', packets }];
  });
  const rules = table.chains.flatMap((chain) =>
    chain.rules.flatMap((rule): readonly EntryCount[] => {
      const { packets } = rule;
      return packets === undefined ? [] : [{ entry: undefined, countedAs: countedAs(chain, rule), packets }];
    }),
  );
  return [...(elements ?? []), ...rules];
}

function countedAs(chain: TableChain, { statements }: TableRule): EntryCount['countedAs'] {
  if (chain.name === INVALID_CHAIN) return 'invalid';
  const returns = statements.some((one) => one.kind === 'verdict' && one.verdict === 'return');
  return returns ? 'not_masqueraded' : 'masqueraded';
}
