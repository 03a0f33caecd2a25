import { CHANGING, expressionIn, packetsIn, targetOf } from './expressions.ts';
import {
  ATTRIBUTE_HEADER_BYTES,
  type Attribute,
  attributesIn,
  attributesOf,
  find,
  type Message,
  NFPROTO,
  text,
  unsigned,
} from './messages.ts';

/** A state of all tables of the network namespace. */
export interface Generation {
  /** Each change adds 1. */
  readonly id: number;
  /** The name of the thread that made it, at most 15 bytes: `nft`, `iptables-restor`. */
  readonly process: string;
}

/** A table, chain or set without its content, or only the content of a set, at the time of the reading. */
export interface Snapshot {
  /** Equal for two replies if nothing differs but counts, handles and, of a chain or set, its content. */
  readonly fingerprint: string;
  /** The port of the netlink socket that alone may change the table; undefined if any may. */
  readonly owner?: number | undefined;
  /** How many rules a chain holds, and how many rules and elements lead to it; undefined for anything else. */
  readonly use?: number | undefined;
}

export interface RuleReply extends Snapshot {
  readonly chain: string;
  readonly packets: bigint | undefined;
  readonly target: string | undefined;
}

/** A base chain of type nat at the hook postrouting. */
export interface NatChain {
  /** As nft(8) names it. */
  readonly family: 'ip' | 'ip6' | 'inet';
  readonly table: string;
  readonly chain: string;
  readonly priority: number;
}

const NFTA_GEN = { id: 1, processName: 3 } as const;
const NFTA_TABLE_OWNER = 7;
const NFTA_CHAIN = { table: 1, name: 3, hook: 4, use: 6, type: 7 } as const;
/** What NFTA_CHAIN_HOOK holds. */
const NFTA_HOOK = { number: 1, priority: 2 } as const;
const NF_INET_POST_ROUTING = 4n;
const NFTA_SET_NAME = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
const NFTA_RULE = { chain: 2, expressions: 4 } as const;

/** NFPROTO_… in linux/netfilter.h. */
export const FAMILY_IDS = [{ word: 'inet', protocol: 1 }, NFPROTO.IPv4, NFPROTO.IPv6] as const;

/** Attributes that are not part of a fingerprint (linux/netfilter/nf_tables.h). */
const IGNORED = {
  /** NFTA_TABLE_HANDLE and _PAD. _USE counts chains and sets. */
  table: [4, 5],
  /** NFTA_CHAIN_HANDLE, _USE (which counts rules), _COUNTERS and _PAD. */
  chain: [2, 6, 8, 9],
  /** NFTA_SET_PAD, _HANDLE and _COUNT (of elements, since Linux 6.16). */
  set: [14, 16, 20],
  /** NFTA_RULE_HANDLE, _POSITION (the handle of the rule before) and _PAD. */
  rule: [3, 6, 8],
} as const;

/** Reads NFT_MSG_NEWGEN, a reply or an event. */
export function readGeneration(message: Message): Generation {
  const attributes = attributesOf(message);
  const id = Number(unsigned(find(attributes, NFTA_GEN.id), 4));
  return { id, process: text(find(attributes, NFTA_GEN.processName)) };
}

/** Reads NFT_MSG_NEWTABLE, _NEWCHAIN or _NEWSET. */
export function readSnapshot(message: Message, kind: 'table' | 'chain' | 'set'): Snapshot {
  const attributes = attributesOf(message);
  const numberIn = (type: number) => {
    const found = find(attributes, type);
    return found && Number(unsigned(found, 4));
  };
  return {
    fingerprint: fingerprintOf(attributes, IGNORED[kind]),
    ...(kind === 'table' && { owner: numberIn(NFTA_TABLE_OWNER) }),
    ...(kind === 'chain' && { use: numberIn(NFTA_CHAIN.use) }),
  };
}

/** Reads NFT_MSG_NEWCHAIN; undefined if it is another kind of chain. */
export function readNatChain(message: Message): NatChain | undefined {
  const attributes = attributesOf(message);
  const [type, hook] = [find(attributes, NFTA_CHAIN.type), attributesIn(find(attributes, NFTA_CHAIN.hook))];
  // Only these families have chains of type nat.
  const family = FAMILY_IDS.find(({ protocol }) => protocol === message.payload.bytes[message.payload.start]);
  if (family === undefined || type === undefined || text(type) !== 'nat') return undefined;
  if (unsigned(find(hook, NFTA_HOOK.number), 4) !== NF_INET_POST_ROUTING) return undefined;
  return {
    family: family.word,
    table: text(find(attributes, NFTA_CHAIN.table)),
    chain: text(find(attributes, NFTA_CHAIN.name)),
    priority: Number(BigInt.asIntN(32, unsigned(find(hook, NFTA_HOOK.priority), 4))),
  };
}

/** Reads NFT_MSG_NEWSET. */
export function readSetName(message: Message): string {
  return text(find(attributesOf(message), NFTA_SET_NAME));
}

/** Reads NFT_MSG_NEWSETELEM: how many elements it tells. */
export function countElements(message: Message): number {
  return attributesIn(find(attributesOf(message), NFTA_SET_ELEM_LIST_ELEMENTS)).length;
}

/** Reads NFT_MSG_NEWSETELEM: a part of what a set holds. */
export function readContent(message: Message): Snapshot {
  return { fingerprint: fingerprintOf(attributesOf(message), []) };
}

/**
 * Reads NFT_MSG_NEWRULE, and overwrites its counts.
 *
 * @param leadingTo if given, only a rule that leads to this chain is read to its end
 */
export function readRule(message: Message, leadingTo?: string): RuleReply | undefined {
  const attributes = attributesOf(message);
  const expressions = attributesIn(find(attributes, NFTA_RULE.expressions)).map(expressionIn);
  const target = expressions.map(targetOf).find((target) => target !== undefined);
  if (leadingTo !== undefined && target !== leadingTo) return undefined;
  const packets = packetsIn(expressions);
  for (const { name, data } of expressions)
    if (CHANGING.includes(name)) data?.bytes.fill(0, data.start, data.end);
  const chain = text(find(attributes, NFTA_RULE.chain));
  return { fingerprint: fingerprintOf(attributes, IGNORED.rule), chain, packets, target };
}

/** One text of one character for each byte: the attributes with their headers, which have type and length. */
function fingerprintOf(attributes: readonly Attribute[], ignored: readonly number[]): string {
  let all = '';
  for (const { type, bytes, start, end } of attributes)
    if (!ignored.includes(type)) all += bytes.toString('latin1', start - ATTRIBUTE_HEADER_BYTES, end);
  return all;
}
