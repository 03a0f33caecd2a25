import assert from 'node:assert/strict';
import { prefixesOf, type RangeSet } from '../../../lib/cidr/ranges.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import { parseIptablesRule } from '../../../lib/dataplane/iptables/parse-rule.ts';
import type { Requests } from '../../../lib/dataplane/netlink.ts';
import type { Rule } from '../../../lib/dataplane/rule.ts';
import { addTarget, type BaseChain, type ReadChain } from '../../../lib/foreign/base-chain.ts';
import { Budget } from '../../../lib/foreign/budget.ts';
import type { KnownExpression } from '../../../lib/netlink/expressions.ts';
import type { NatChain, RuleReply } from '../../../lib/netlink/replies.ts';
import type { Policy } from '../../../lib/policy/policy.ts';
import { prefixFrom } from '../cidr/support.ts';
import { type Answers, fakeNetlink, hostWith } from '../dataplane/support.ts';

export const OWN = 'IP-MASQ-AGENT';

/** What a node with kube-proxy always has. */
export const KUBE_PROXY = [
  '-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
  '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
  '-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0',
  '-A KUBE-POSTROUTING -j MASQUERADE --random-fully',
];

/** The shortest list of prefixes, with a space between them; `all` for everything. */
export function textOf(set: RangeSet): string {
  const texts = prefixesOf(set).map(({ text }) => text);
  return ['0.0.0.0/0', '::/0'].includes(texts.join()) ? 'all' : texts.join(' ');
}

/** What a rule means: destinations | conditions | outcome. */
export function meaningOf({ destinations, conditions, outcome }: Omit<Rule, 'text'>): string {
  const target = 'chain' in outcome ? ` ${outcome.chain}` : '';
  const asked = conditions.map(({ text }) => text).join(', ');
  return `${textOf(destinations)} |${asked === '' ? '' : ` ${asked}`} | ${outcome.kind}${target}`;
}

/** A policy that leaves alone exactly these. */
export function policyOf(...cidrs: readonly string[]): Policy {
  const prefixes = cidrs.map(prefixFrom);
  const family = prefixes[0]?.family ?? 'IPv4';
  return {
    family,
    from: [],
    entries: prefixes.map((prefix) => ({
      prefix,
      verdict: 'not_masqueraded',
      origin: { kind: 'built-in', basis: 'test' },
    })),
  };
}

/** POSTROUTING and other chains, from lines as `iptables -S` prints them. */
export function baseChainOf(lines: readonly string[], family: Policy['family'] = 'IPv4'): BaseChain {
  const chains = new Map<string, Rule[]>([['POSTROUTING', []]]);
  for (const { chain, spec } of lines.map(words)) {
    const rules = chains.get(chain) ?? [];
    rules.push(parseIptablesRule(family, chain, spec, OWN));
    chains.set(chain, rules);
  }
  return baseOf(chains, { chainText: 'iptables (nft) nat POSTROUTING', family, name: 'POSTROUTING' });
}

/** The same of rules by the names of their chains. */
export function baseOf(
  chains: ReadonlyMap<string, readonly Rule[]>,
  base: Pick<BaseChain, 'chainText' | 'family' | 'name'>,
): BaseChain {
  const read = [...chains].map(([name, rules]): [string, ReadChain] => {
    const targets = new Map<string, number>();
    for (const { outcome } of rules) if ('chain' in outcome) addTarget(targets, outcome.chain);
    const toOwn = rules.filter(({ outcome }) => outcome.kind === 'own').length;
    const each: ReadChain['each'] = (visit, budget) => budget.each(rules, visit);
    return [name, { targets, toOwn, each }];
  });
  return { ...base, chains: new Map(read), unread: [] };
}

/** All rules of a chain. */
export async function rulesOf(chain: ReadChain | undefined): Promise<readonly Rule[]> {
  const rules: Rule[] = [];
  await chain?.each((rule) => rules.push(rule), unlimited());
  return rules;
}

function words(line: string): { readonly chain: string; readonly spec: string } {
  const [, chain = '', spec = ''] = /^-A (\S+) ?(.*)$/s.exec(line) ?? [];
  assert.ok(chain, line);
  return { chain, spec };
}

/** A budget that no test exceeds, whatever the machine. */
export function unlimited(): Budget {
  return new Budget({ cpuMs: Number.POSITIVE_INFINITY });
}

/**
 * A machine whose tools answer from a table; whatever is not in it is not installed.
 *
 * @param natChains what the kernel lists over netlink
 * @param rules what it says that chains of all tables hold, by their names
 */
export function fakeHost(
  answers: Answers,
  commands: string[] = [],
  files: Readonly<Record<string, string>> = {},
  natChains: readonly NatChain[] = [],
  rules: Readonly<Record<string, readonly RuleReply[]>> = {},
  requests: Partial<Requests> = {},
): Host {
  const all = {
    natChains: async () => natChains,
    eachRule: visiting((chain) => rules[chain] ?? []),
    ...requests,
  };
  return {
    ...hostWith(answers, commands),
    netlink: fakeNetlink(all),
    readText: async (path) => files[path] ?? '',
  };
}

/** Visits rules of chains as netlink does. */
export function visiting(rulesIn: (chain: string) => readonly RuleReply[]): Requests['eachRule'] {
  return async ({ chain }, visit) => rulesIn(chain).forEach(visit);
}

/** A base chain as the kernel lists it. */
export function base(family: NatChain['family'], table: string, chain: string, priority = 100): NatChain {
  return { family, table, chain, priority };
}

/** A rule as the kernel sends it. */
export function reply(...expressions: readonly KnownExpression[]): RuleReply {
  return { chain: '', handle: 7, expressions, packets: undefined };
}

export const MASQUERADE = { name: 'masq' } as const;

export function jump(chain: string): KnownExpression {
  return { name: 'immediate', to: 0, verdict: { code: -3, chain } };
}
