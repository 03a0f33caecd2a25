import type { Family } from '../../cidr/address.ts';
import type { Policy } from '../../policy/policy.ts';
import { BY_FLAG, type Dataplane, type Observed, type Reason, type RuleCount } from '../dataplane.ts';
import { DataplaneError } from '../error.ts';
import type { Host } from '../host.ts';
import { KernelMemory, type Look } from '../memory.ts';
import type { RuleOptions } from '../options.ts';
import { INVALID_CHAIN, SET, TABLE } from './names.ts';
import { chainName, isOwn, isSameTable, type NftChain, type NftTable } from './objects.ts';
import { observe } from './observe.ts';
import { planRemoval, planTable, type TablePlan } from './plan.ts';
import { type SeenTable, seeElementCounts, seeElements, seeTable } from './see.ts';
import { renderTable } from './table.ts';
import { openNft } from './tool.ts';
import { kernelVerdicts } from './verdict.ts';

/**
 * The policy as one interval set in the agent's table.
 *
 * @throws {DataplaneError} if nft is not installed, or too old
 */
export async function openNftables(
  options: RuleOptions,
  host: Host,
  { by, reason }: Reason = BY_FLAG,
): Promise<Dataplane> {
  const tool = await openNft(host);
  const { netlink } = host;
  const memory = new KernelMemory<NftTable | undefined, SeenTable>(netlink, seeTable, isSameTable);

  const look = (family: Family) =>
    memory.look(family, async (seen, known) => {
      if (seen !== undefined && seen.fingerprint === undefined) return undefined;
      const elements = seen && (await seeElements(netlink, family, known));
      if (elements === undefined) return await observe(tool, family);
      const table = known ?? (await observe(tool, family, true));
      if (table === undefined || table.elements === elements) return table;
      return { ...table, elements, ranges: undefined };
    });

  const carryOut = async (policy: Policy, { elements, ...plan }: TablePlan, from: From): Promise<void> => {
    const { family } = policy;
    if (elements === undefined) {
      if (plan.preparation !== '') await tool.run(family, plan.preparation);
      return await tool.run(family, plan.script);
    }
    const changed = await netlink?.change((requests) =>
      requests.change({ family, table: TABLE, set: SET }, elements.remove, elements.add),
    );
    if (changed instanceof Error) {
      const remedy = 'find out which other program changes the set';
      throw new DataplaneError('raced', changed.message, remedy);
    }
    if (changed !== undefined) memory.trustOwn(family, renderTable(policy, options), from, changed);
  };

  const observed = (family: Family, from: From, whole: boolean): Observed => ({
    isTrusted: from.isTrusted,
    generation: from.generation,
    plan(policy) {
      const single = netlink?.hasGivenUp === false ? 'netlink' : 'nft';
      const plan = planTable(from.found, policy, options, whole ? 'nft, whole' : single);
      if (plan === undefined) return undefined;
      const apply = () => memory.write(family, plan.remade, () => carryOut(policy, plan, from));
      return Object.assign(plan.draft, { apply });
    },
    trust: (policy) => memory.trust(family, { ...from, found: renderTable(policy, options) }),
    planRemoval() {
      const draft = planRemoval(family, from.found);
      if (draft === undefined) return undefined;
      return { ...draft, apply: () => memory.write(family, 'all', () => tool.run(family, draft.script)) };
    },
    stays: () => [],
    verdicts: () => kernelVerdicts(family, from.found),
  });

  /** The counts, without the tool; undefined if that cannot be told. */
  const seeCounts = async (policy: Policy): Promise<Counted | undefined> => {
    const now = await memory.recall(policy.family);
    const table = renderTable(policy, options);
    if (now?.found === undefined || now.found.elements !== table.elements) return undefined;
    const elements = await seeElementCounts(netlink, policy.family, table);
    const { packets } = now.seen;
    const chains = now.found.chains.map((chain) => withCounts(chain, packets.get(chainName(chain)) ?? []));
    return elements && chains.every((chain) => chain !== undefined) ? { elements, chains } : undefined;
  };

  /** The same with the tool. */
  const listCounts = async ({ family }: Policy): Promise<Counted | undefined> => {
    const table = await observe(tool, family);
    return table && isOwn(table) ? table : undefined;
  };

  return {
    name: `nftables ${tool.version}`,
    reason,
    chosenBy: by,
    iptables: undefined,
    ruleCount: (policy) => renderTable(policy, options).elements.size,
    observe: async (family, care) => observed(family, await look(family), care === 'most'),
    count: (policy) =>
      memory.count(policy.family, async (remade) => {
        const counted = (await seeCounts(policy)) ?? (await listCounts(policy));
        return counted === undefined ? [] : countTable(counted, policy, options, remade);
      }),
    get knownUntil() {
      return netlink?.hasGivenUp === false ? memory.knownUntil.bind(memory) : undefined;
    },
  };
}

type From = Look<NftTable | undefined>;

/** The rules and elements of the agent's table with their counts. */
type Counted = Pick<NftTable<bigint>, 'elements' | 'chains'>;

/** A rule that counts, as nft(8) prints it. */
const COUNTS = /(?:^| )counter (\w+)/;

/** The rules of a chain that count; undefined if the counts are not theirs. */
function withCounts(chain: NftChain, counts: readonly bigint[]): NftChain | undefined {
  const rules = chain.rules.filter(({ text }) => COUNTS.test(text));
  if (rules.length !== counts.length) return undefined;
  return { ...chain, rules: counts.map((packets, index) => ({ text: rules[index]?.text ?? '', packets })) };
}

/**
 * The counts of each element and of each rule that counts. Exceptions have no element: they are counted with everything
 * else that is masqueraded.
 *
 * @param remade how often a chain was written again: each time, the counts of its rules begin at zero
 */
function countTable(
  counted: Counted,
  policy: Policy,
  options: RuleOptions,
  remade: (chain: string) => number,
): readonly RuleCount[] {
  const wanted = renderTable(policy, options);
  const elements = Array.from(counted.elements, ([text, packets]): readonly RuleCount[] => {
    const entry = wanted.elements.get(text);
    return entry === undefined ? [] : [{ rule: text, entry, verdict: 'not_masqueraded', packets }];
  });
  const rules = counted.chains.flatMap((chain) =>
    chain.rules.map(({ text, packets }): readonly RuleCount[] => {
      const rule = `${text} #${remade(chainName(chain))}`;
      const verdict = countedAs(chain, text);
      return packets === undefined ? [] : [{ rule, entry: undefined, verdict, packets }];
    }),
  );
  return [...elements, ...rules].flat();
}

function countedAs(chain: NftChain, rule: string): RuleCount['verdict'] {
  if (chainName(chain) === INVALID_CHAIN) return 'invalid';
  return COUNTS.exec(rule)?.[1] === 'return' ? 'not_masqueraded' : 'masqueraded';
}
