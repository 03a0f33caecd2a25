import { type Expression, packetsIn, readExpression, readExpressions } from './expressions.ts';
import {
  attributesOf,
  find,
  type Message,
  NFTA,
  type Span,
  TABLE_FAMILIES,
  type TableFamily,
  text,
  uint,
} from './messages.ts';
import { type Commented, readUserData, type UserData } from './user-data.ts';

/** A state of all tables of the network namespace. */
export interface Generation {
  /** Each change adds 1. */
  readonly id: number;
  /** The name of the thread that made it, at most 15 bytes: `nft`, `iptables-restor`. */
  readonly process: string;
}

export interface TableReply extends UserData {
  /** NFT_TABLE_F_… of linux/netfilter/nf_tables.h: 1 is dormant, 2 has an owner, 4 outlives its owner. */
  readonly flags: number;
  /** How many chains, sets, objects and flow tables it holds. */
  readonly use: number;
  /** The port of the netlink socket that alone may change the table; undefined if any may. */
  readonly owner?: number | undefined;
}

/** Where a base chain hooks in. */
export interface Hook {
  /** `nat`, `filter` or `route`. */
  readonly type: string;
  /** NF_INET_…: 4 is postrouting. */
  readonly number: number;
  readonly priority: number;
  /** NF_DROP or NF_ACCEPT: 0 or 1. */
  readonly policy: number;
}

export interface ChainReply extends UserData {
  readonly protocol: number;
  readonly table: string;
  readonly name: string;
  /** Undefined for a chain into which only rules lead. */
  readonly hook?: Hook | undefined;
  /** How many rules it holds, and how many rules and elements lead to it. */
  readonly use: number;
  /** Whether it is a part of a rule, with which it goes: `jump { … }`. */
  readonly isBound?: true;
}

export interface SetReply extends UserData {
  readonly name: string;
  /** NFT_SET_…: 1 is anonymous, 4 has intervals. */
  readonly flags: number;
  /** The number of its type in nft(8): 7 for addresses of IPv4, 8 for those of IPv6. */
  readonly keyType: number;
  readonly keyBytes: number;
  /** What each of its elements does with a packet. */
  readonly expressions: readonly Expression[];
  /** How many elements it may hold; undefined if there is no limit. */
  readonly size?: number | undefined;
}

/** Such as a named counter. */
export interface ObjectReply {
  readonly name: string;
  /** NFT_OBJECT_…. */
  readonly objectType: number;
}

export interface RuleReply extends UserData {
  readonly chain: string;
  readonly expressions: readonly Expression[];
  readonly packets: bigint | undefined;
}

/** A base chain of type nat at the hook postrouting, or of any type at the hook prerouting before connection tracking. */
export interface NatChain {
  readonly family: TableFamily;
  readonly table: string;
  readonly chain: string;
  readonly priority: number;
  /** Whether it is of the second kind. */
  readonly isRaw: boolean;
}

const NFTA_GEN = { id: 1, processName: 3 } as const;
const NFTA_SET_DESC_SIZE = 1;
const NFT_CHAIN_BINDING = 4;

const [NF_INET_PRE_ROUTING, NF_INET_POST_ROUTING] = [0, 4];
/** linux/netfilter_ipv4.h */
const NF_IP_PRI_CONNTRACK = -200;

/** Reads NFT_MSG_NEWGEN, a reply or an event. */
export function readGeneration(message: Message): Generation {
  const attributes = attributesOf(message);
  return { id: uint(find(attributes, NFTA_GEN.id)), process: text(find(attributes, NFTA_GEN.processName)) };
}

/** Reads NFT_MSG_NEWTABLE. */
export function readTable(message: Message): TableReply {
  const attributes = attributesOf(message);
  const owner = find(attributes, NFTA.table.owner);
  return {
    flags: uint(find(attributes, NFTA.table.flags)),
    use: uint(find(attributes, NFTA.table.use)),
    ...(owner && { owner: uint(owner) }),
    ...userDataIn('table', find(attributes, NFTA.table.userData)),
  };
}

/** Reads NFT_MSG_NEWCHAIN. */
export function readChain(message: Message): ChainReply {
  const attributes = attributesOf(message);
  const hook = find(attributes, NFTA.chain.hook);
  const flags = find(attributes, NFTA.chain.flags);
  return {
    protocol: message.payload.bytes[message.payload.start] ?? 0,
    table: text(find(attributes, NFTA.chain.table)),
    name: text(find(attributes, NFTA.chain.name)),
    use: uint(find(attributes, NFTA.chain.use)),
    ...(hook && {
      hook: {
        type: text(find(attributes, NFTA.chain.type)),
        policy: uint(find(attributes, NFTA.chain.policy)),
        ...readHook(hook),
      },
    }),
    ...(flags && (uint(flags) & NFT_CHAIN_BINDING) !== 0 && { isBound: true }),
    ...userDataIn('chain', find(attributes, NFTA.chain.userData)),
  };
}

function readHook(hook: Span): Pick<Hook, 'number' | 'priority'> {
  return { number: uint(find(hook, NFTA.hook.number)), priority: uint(find(hook, NFTA.hook.priority)) | 0 };
}

/** Reads NFT_MSG_NEWCHAIN; undefined if it is another kind of chain. */
export function readNatChain(message: Message): NatChain | undefined {
  const { protocol, table, name, hook } = readChain(message);
  // Only these families have chains of NAT and of connection tracking.
  const family = (['inet', 'IPv4', 'IPv6'] as const).find((one) => TABLE_FAMILIES[one].protocol === protocol);
  if (family === undefined || hook === undefined) return undefined;
  const { type, number, priority } = hook;
  const isNat = type === 'nat' && number === NF_INET_POST_ROUTING;
  const isRaw = number === NF_INET_PRE_ROUTING && priority < NF_IP_PRI_CONNTRACK;
  return isNat || isRaw ? { family, table, chain: name, priority, isRaw } : undefined;
}

/** Reads NFT_MSG_NEWSET. */
export function readSet(message: Message): SetReply {
  const attributes = attributesOf(message);
  const [one, list] = [find(attributes, NFTA.set.expression), find(attributes, NFTA.set.expressions)];
  const size = find(find(attributes, NFTA.set.description), NFTA_SET_DESC_SIZE);
  const flags = find(attributes, NFTA.set.flags);
  return {
    name: text(find(attributes, NFTA.set.name)),
    flags: flags === undefined ? 0 : uint(flags),
    keyType: uint(find(attributes, NFTA.set.keyType)),
    keyBytes: uint(find(attributes, NFTA.set.keyLength)),
    expressions: one === undefined ? readExpressions(list) : [readExpression(one)],
    ...(size && { size: uint(size) }),
    ...userDataIn('set', find(attributes, NFTA.set.userData)),
  };
}

/** Reads NFT_MSG_NEWOBJ. */
export function readObject(message: Message): ObjectReply {
  const attributes = attributesOf(message);
  const { name, type } = NFTA.object;
  return { name: text(find(attributes, name)), objectType: uint(find(attributes, type)) };
}

/** Reads NFT_MSG_NEWRULE. */
export function readRule(message: Message): RuleReply {
  const attributes = attributesOf(message);
  const expressions = readExpressions(find(attributes, NFTA.rule.expressions));
  return {
    chain: text(find(attributes, NFTA.rule.chain)),
    expressions,
    packets: packetsIn(expressions),
    ...userDataIn('rule', find(attributes, NFTA.rule.userData)),
  };
}

function userDataIn(kind: Commented, data: Span | undefined): UserData {
  return data === undefined ? {} : readUserData(kind, data.bytes.subarray(data.start, data.end));
}
