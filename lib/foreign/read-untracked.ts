import { ADDRESS_BITS, type Family } from '../cidr/address.ts';
import { complement, formatRange, nothing, rangeSet } from '../cidr/ranges.ts';
import type { Host } from '../dataplane/host.ts';
import { noAnswer, type Requests } from '../dataplane/netlink.ts';
import { HOOK, NFT_FAMILY, SRCNAT } from '../dataplane/nftables/names.ts';
import { type Outcome, type Rule, ruleOf, type Test } from '../dataplane/rule.ts';
import type { Expression } from '../netlink/expressions.ts';
import type { NatChain, RuleReply } from '../netlink/replies.ts';
import { type BaseChain, readBaseChain } from './base-chain.ts';
import { MOST_CHAINS, MOST_LISTED } from './budget.ts';
import { type NodeOptions, type NodeRules, readNode } from './read-node.ts';

/**
 * Reads what `readNode` reads, which of it packets meet after the agent's rules, and the chains of nf_tables that may keep packets of
 * pods from connection tracking.
 */
export async function readForeign(host: Host, options: NodeOptions): Promise<NodeRules> {
  const node = await readNode(host, options);
  const ask = async (requests: Requests) => ({
    listed: await requests.natChains(),
    raw: await readRaw(requests, options.families),
  });
  const { listed, raw } = (await host.netlink?.use(ask).catch(noAnswer)) ?? { listed: [], raw: [] };
  const own = options.iptables === undefined ? HOOK.priority : SRCNAT;
  const after = listed.filter(({ priority }) => priority > own).map(chainTextOf);
  const nat = node.baseChains.map((base) => ({ ...base, isAfterOwn: after.includes(base.chainText) }));
  const unread = raw.flatMap((base) => base.unread.map((what) => `${base.chainText}: ${what}`));
  return { ...node, baseChains: [...nat, ...raw], unread: [...node.unread, ...unread] };
}

async function readRaw(requests: Requests, families: readonly Family[]): Promise<readonly BaseChain[]> {
  const found: BaseChain[] = [];
  for (const base of await requests.rawChains()) {
    for (const family of families) {
      const { protocol } = NFT_FAMILY[family];
      if (base.family !== 'inet' && base.family !== protocol) continue;
      const chain = { chainText: chainTextOf(base), family, name: base.chain };
      const rules = (name: string) => readChain(requests, { ...base, chain: name }, family);
      const read = await readBaseChain(chain, MOST_CHAINS.nft, rules);
      if (read !== undefined) found.push(read);
    }
  }
  return found;
}

function chainTextOf({ family, table, chain }: NatChain): string {
  const command = family === 'ip' ? 'iptables' : 'ip6tables';
  const isIptables = family !== 'inet' && table === 'raw' && chain === 'PREROUTING';
  return isIptables ? `${command} (nft) raw ${chain}` : `nftables ${family} ${table} ${chain}`;
}

async function readChain(requests: Requests, chain: NatChain, family: Family) {
  const most = MOST_LISTED.iptables.rules;
  const size = await requests.size(chain, 0);
  if (size !== undefined && size.rules > most) return `chain ${chain.chain} has more than ${most} rules`;
  return (await requests.rulesOf(chain))?.map((reply) => ruleFrom(family, chain, reply));
}

/** Where a header has the addresses: bytes from its start. */
const ADDRESSES: Readonly<Record<Family, Readonly<Record<number, 'source' | 'destination'>>>> = {
  IPv4: { 12: 'source', 16: 'destination' },
  IPv6: { 8: 'source', 24: 'destination' },
};

/** NFT_META_NFPROTO, and the values that it has, as hexadecimal digits. */
const NFPROTO = { key: 15, IPv4: '02', IPv6: '0a' } as const;

/** NF_ACCEPT, NFT_JUMP, NFT_GOTO and NFT_RETURN. */
const VERDICTS = { 1: 'ends', '-3': 'jump', '-4': 'goto', '-5': 'returns' } as const;

/** Expressions that ask for nothing, or whose value a comparison asks for. */
const SILENT = /^(?:counter|log|meta|payload|bitwise|target|comment)$/;

/** The rule of a reply. Of its matches, only those of addresses and of the family are understood; the others are named. */
function ruleFrom(family: Family, base: NatChain, { chain, handle, expressions }: RuleReply): Rule {
  const words: string[] = [];
  const tests: Test[] = [];
  let outcome: Outcome = { kind: 'goes on' };
  for (const [index, one] of expressions.entries()) {
    const { name, info } = nameOf(one);
    const decided = outcomeOf(one);
    if (name === 'comment') words.push(`comment "${textIn(info)}"`);
    if (decided !== undefined) outcome = decided;
    else if (one.name === 'cmp') tests.push(comparison(family, expressions.slice(0, index), one));
    else if (!SILENT.test(name)) tests.push({ text: name, isSteady: false });
  }
  const target = outcome.kind === 'untracks' ? 'notrack' : outcome.kind;
  const where = `${base.family} ${base.table} ${chain} handle ${handle}`;
  const text = [`chain ${chain}:`, ...words, target, `(nft delete rule ${where})`].join(' ');
  return ruleOf(family, text, tests, outcome);
}

function outcomeOf(one: Expression): Outcome | undefined {
  if (one.name === 'immediate' && one.verdict !== undefined) {
    const kind = VERDICTS[`${one.verdict.code}` as keyof typeof VERDICTS] ?? 'else';
    return kind === 'jump' || kind === 'goto' ? { kind, chain: one.verdict.chain ?? '' } : { kind };
  }
  const { name, info } = nameOf(one);
  // CT with XT_CT_NOTRACK among its flags (linux/netfilter/xt_CT.h).
  const untracks = /^notrack$/i.test(name) || (name === 'CT' && (info.at(0) ?? 0) % 2 === 1);
  return untracks ? { kind: 'untracks' } : undefined;
}

/** What a comparison asks of packets, by what the expressions before it have loaded. */
function comparison(
  family: Family,
  before: readonly Expression[],
  { operation, value = '' }: Extract<Expression, { name: 'cmp' }>,
): Test {
  const last = before.at(-1);
  const mask = last?.name === 'bitwise' ? last.mask : undefined;
  const load = mask === undefined ? last : before.at(-2);
  const is = operation !== 1;
  if (load?.name === 'meta' && load.key === NFPROTO.key)
    return (value === NFPROTO[family]) === is ? undefined : nothing(family);
  const field =
    load?.name === 'payload' && load.base === 1 ? ADDRESSES[family][load.offset ?? -1] : undefined;
  const bits = BigInt(ADDRESS_BITS[family]);
  const rest = bits - BigInt(4 * value.length);
  if (field === undefined || value === '' || rest < 0n) return { text: 'another match', isSteady: false };
  // A mask without holes, as all programs write it, leaves a range.
  const free = ~(BigInt(`0x${mask ?? 'f'.repeat(value.length)}`) << rest) & ((1n << bits) - 1n);
  const first = BigInt(`0x${value}`) << rest;
  const range = { first, last: first | free };
  const set = is ? rangeSet(family, [range]) : complement(rangeSet(family, [range]));
  if (field === 'destination') return set;
  return { text: `source ${is ? '' : 'not '}${formatRange(family, range)}`, isSteady: true, sources: set };
}

/** NFTA_MATCH_NAME and _INFO, NFTA_TARGET_NAME and _INFO. */
const [NAME, INFO] = [1, 3];

/** The name of an expression, or of an extension of iptables with its data. */
function nameOf(one: Expression): { readonly name: string; readonly info: Buffer } {
  const parts = new Map<number, Buffer>();
  if (one.name !== 'unknown') return { name: one.name, info: Buffer.alloc(0) };
  const bytes = Buffer.from(/^(?:match|target)$/.test(one.type) ? one.bytes : '', 'hex');
  for (let at = 0; at + 4 <= bytes.length; at += (bytes.readUInt16LE(at) + 3) & ~3 || bytes.length)
    parts.set(bytes.readUInt16LE(at + 2), bytes.subarray(at + 4, at + bytes.readUInt16LE(at)));
  return { name: textIn(parts.get(NAME)) || one.type, info: parts.get(INFO) ?? Buffer.alloc(0) };
}

function textIn(bytes: Buffer | undefined): string {
  return bytes?.toString('utf8').replace(/\0.*$/s, '') ?? '';
}
