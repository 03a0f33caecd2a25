import assert from 'node:assert/strict';
import { parseAddress } from '../../../../lib/cidr/address.ts';
import { parsePrefix } from '../../../../lib/cidr/prefix.ts';
import { prefixesOf, type RangeSet, rangeOf, rangeSet } from '../../../../lib/cidr/ranges.ts';
import type { BaseChain, Rule } from '../../../../lib/dataplane/foreign/chain.ts';
import { parseIptablesRule } from '../../../../lib/dataplane/foreign/iptables-rule.ts';
import type { Policy } from '../../../../lib/policy/policy.ts';

export const OWN = 'IP-MASQ-AGENT';

/** The shortest list of prefixes, with a space between them; `all` for everything. */
export function textOf(set: RangeSet): string {
  const texts = prefixesOf(set).map(({ text }) => text);
  return ['0.0.0.0/0', '::/0'].includes(texts.join()) ? 'all' : texts.join(' ');
}

export function setOf(family: Policy['family'], ...cidrs: readonly string[]): RangeSet {
  return rangeSet(
    family,
    cidrs.map((text) => rangeOf(prefixOf(text))),
  );
}

function prefixOf(text: string) {
  const parsed = parsePrefix(text);
  assert.ok('prefix' in parsed, text);
  return parsed.prefix;
}

export function addressOf(text: string) {
  const address = parseAddress(text);
  assert.ok(address, text);
  return address;
}

/** A policy that leaves alone exactly these. */
export function policyOf(...cidrs: readonly string[]): Policy {
  const prefixes = cidrs.map(prefixOf);
  const family = prefixes[0]?.family ?? 'IPv4';
  return {
    family,
    entries: prefixes.map((prefix) => ({
      prefix,
      verdict: 'return',
      origin: { kind: 'built-in', reason: 'test' },
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
  return { where: 'iptables (nft) nat POSTROUTING', family, name: 'POSTROUTING', chains, unread: [] };
}

function words(line: string): { readonly chain: string; readonly spec: string } {
  const [, chain = '', spec = ''] = /^-A (\S+) ?(.*)$/s.exec(line) ?? [];
  assert.ok(chain, line);
  return { chain, spec };
}
