import type { Family } from '../../cidr/address.ts';
import { NetlinkError } from '../../netlink/error.ts';
import { BY_FLAG, type Dataplane, type EntryCount } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { Host } from '../host.ts';
import { type Requests, readIfChanged, whyNoNetlink } from '../netlink.ts';
import type { RuleOptions } from '../options.ts';
import { place, type Transaction } from './commands.ts';
import { ALLOW_NETLINK, dataplaneError } from './failure.ts';
import { SET, tableName } from './names.ts';
import { readTable } from './observe.ts';
import { planRemoval, planTable, type TablePlan } from './plan.ts';
import { countedAs } from './rules.ts';
import { isOwn, setFor, type Table } from './ruleset.ts';
import { ShownRules } from './shown-rules.ts';
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
  reason: string = BY_FLAG,
): Dataplane {
  const { netlink } = host;
  if (netlink === undefined || netlink.isUnavailableForGood) {
    const message = `nftables needs netlink, which does not work here: ${whyNoNetlink(netlink)}`;
    throw new DataplaneError('missing', message, ALLOW_NETLINK);
  }
  const fail = (error: unknown): never => {
    throw dataplaneError(error);
  };
  const ask = <Answer>(use: (requests: Requests) => Promise<Answer>) => netlink.use(use).catch(fail);
  /** Why old sets of a family have not been deleted: until its next change, sets that nothing looks up stay. */
  const undeletable = new Map<Family, string>();
  const shown = new ShownRules();
  const readChanged = readIfChanged(
    () => netlink.generation().catch(fail),
    (family, generation) => ask((requests) => readTable(requests, family, options, shown, generation)),
    (table) => table?.owner !== undefined,
  );

  const apply = async ({ transactions, cleanup, chains }: TablePlan, family: Family): Promise<void> => {
    undeletable.delete(family);
    await ask(async (requests) => {
      // The generation does not guard the plan: an outdated one is written all the same. It only tells whether `learn` may believe
      // what is read back: undefined once another program has changed anything since the first transaction.
      let generation: number | undefined = (await requests.generation()).id;
      const commit = async (transaction: Transaction): Promise<void> => {
        const isLast = await requests.commit(transaction, generation).then(() => true, isOutdated);
        if (!isLast) await requests.commit(transaction);
        generation = isLast && generation !== undefined ? (generation + 1) >>> 0 : undefined;
      };
      for (const transaction of transactions) await commit(transaction);
      for (const change of cleanup)
        await commit([change]).catch((error: unknown) => {
          if (!(error instanceof NetlinkError)) throw error;
          if (error.code !== 'ENOENT') undeletable.set(family, undeletableText(family, error));
        });
      if (chains.length === 0 || generation === undefined) return;
      const rules = await requests.rules(place(family));
      if ((await requests.generation()).id === generation) shown.learn(chains, rules);
    });
  };
  let last: Promise<void> = Promise.resolve();

  const inTurn = (plan: TablePlan, family: Family) => {
    const turn = last.then(() => apply(plan, family));
    last = turn.catch(() => {});
    return turn;
  };

  return {
    name: 'nftables',
    reason,
    iptables: undefined,
    get hearsChanges() {
      return !netlink.isUnavailableForGood;
    },
    ruleCount: (policy) => renderTable(policy, options).segments.length,
    async observe(family) {
      const { found: table, generation } = await readChanged(family);
      const bound = (plan: TablePlan | undefined) =>
        plan && Object.assign(plan.draft, { apply: () => inTurn(plan, family) });
      return {
        generation,
        plan: (policy) => bound(planTable(table, policy, options, undeletable.has(family))),
        planRemoval: () => bound(planRemoval(table)),
        describeUndeletable: (policy) => {
          const text = undeletable.get(family);
          return policy === undefined || text === undefined ? [] : [text];
        },
        verdicts: () => kernelVerdicts(family, table),
        text: () => (table !== undefined && isOwn(table) ? tableBlock(table) : undefined),
      };
    },
    async count(policy) {
      const table = await ask((requests) => readTable(requests, policy.family, options, shown));
      return table !== undefined && isOwn(table) ? countTable(table, renderTable(policy, options)) : [];
    },
  };
}

/** Whether the kernel refuses a transaction because of its generation; throws every other error. */
function isOutdated(error: unknown): false {
  if (error instanceof NetlinkError && error.code === 'ERESTART') return false;
  throw error;
}

function undeletableText(family: Family, { message }: NetlinkError): string {
  return `sets in the table ${tableName(family)} that no rule uses any more stay until the next change: ${message}; they only take memory`;
}

/**
 * The counts of each element and of each rule that counts. Exceptions have no element: they are counted with everything
 * else that is masqueraded.
 */
function countTable(table: Table, { segments }: PolicyTable): readonly EntryCount[] {
  const set = setFor(table, SET);
  const entries = new Map(segments.map(({ first, last, entry }) => [`${first} ${last}`, entry]));
  const elements = set?.ranges?.flatMap(({ first, last, packets = 0n }): readonly EntryCount[] => {
    const entry = entries.get(`${first} ${last}`);
    return entry === undefined ? [] : [{ entry, countedAs: 'not_masqueraded', packets }];
  });
  const rules = table.chains.flatMap((chain) =>
    chain.rules.flatMap(({ own, packets }): readonly EntryCount[] => {
      if (own === undefined || packets === undefined) return [];
      return [{ entry: undefined, countedAs: countedAs(own.effect), packets }];
    }),
  );
  return [...(elements ?? []), ...rules];
}
