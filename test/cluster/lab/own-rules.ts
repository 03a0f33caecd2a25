import { isDeepStrictEqual } from 'node:util';
import type { Lab } from './scenario.ts';
import { until } from './wait.ts';

/** The agent's rules of each node. */
export async function rulesOf({ nodes }: Pick<Lab, 'nodes'>): Promise<readonly string[]> {
  return await Promise.all(nodes.map((node) => node.ownRules()));
}

/** Waits until no node has rules of the agent. */
export async function untilNoRules(lab: Lab): Promise<void> {
  await until(
    'the rules to be gone',
    () => rulesOf(lab),
    (all) => all.every((rules) => rules === ''),
  );
}

/** Where the agent's rules are: a chain of iptables, by its name, or a table of nftables. */
export type Home = { readonly chain: string } | 'table';

/**
 * Waits until each node has the rules of this agent alone, once in each family: a chain and one jump to it, or a table.
 * Leftovers are removed beside the loop, after the pod is Ready.
 */
export async function onlyOwnRules({ cluster, nodes }: Lab, home: Home): Promise<void> {
  const inEachFamily = <Text>(text: Text) => cluster.families.map(() => text);
  const wanted: Found =
    home === 'table'
      ? { chains: [], jumps: [], tables: inEachFamily('ip-masq-agent'), older: 0 }
      : { chains: inEachFamily(home.chain), jumps: inEachFamily(home.chain), tables: [], older: 0 };
  for (const { name, ownRules, must } of nodes) {
    const look = async () => find(await ownRules(), await must('nft', 'list', 'tables'));
    await until(`the rules of this agent alone on ${name}`, look, (found) =>
      isDeepStrictEqual(found, wanted),
    );
  }
}

interface Found {
  readonly chains: readonly string[];
  /** The chains that the jumps lead to. */
  readonly jumps: readonly string[];
  readonly tables: readonly string[];
  /** Rules with comments of v1 or v2. */
  readonly older: number;
}

function find(rules: string, tables: string): Found {
  const all = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, name = '']) => name);
  return {
    chains: all(rules, /^:(\S+) /gm),
    jumps: all(rules, /^-A POSTROUTING .*-j (\S+)$/gm),
    tables: all(tables, /^table \S+ (.*masq.*)$/gm),
    older: all(rules, /((?:local|outbound) traffic is)/g).length,
  };
}
