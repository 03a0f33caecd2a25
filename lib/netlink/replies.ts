import { type Attribute, raw, text, u32, u64 } from './attributes.ts';
import { blankChanging, type Counter, commentIn, counterIn, expressionsIn, targetOf } from './expressions.ts';
import { attributesOf, type Message } from './messages.ts';

/** A state of all tables of the network namespace. */
export interface Generation {
  /** Each change adds 1. */
  readonly id: number;
  /** The name of the thread that made it, at most 15 bytes: `nft`, `iptables-restor`. */
  readonly process: string;
}

/** A table, chain or set, without what is in it. */
export interface Thing {
  readonly comment: string | undefined;
  /** Equal for two replies if nothing has changed but counts and handles, and for chains and sets their content. */
  readonly fingerprint: string;
}

/** A rule of a chain. */
export interface Rule extends Thing {
  readonly handle: bigint;
  /** Undefined if the rule has no counter. */
  readonly counter: Counter | undefined;
  /** The chain that it jumps or goes to. */
  readonly target: string | undefined;
}

const NFTA_GEN_ID = 1;
const NFTA_GEN_PROC_NAME = 3;

/** Reads NFT_MSG_NEWGEN, a reply or an event. */
export function readGeneration(message: Message): Generation {
  const attributes = attributesOf(message);
  const name = attributes.find(({ type }) => type === NFTA_GEN_PROC_NAME);
  return {
    id: u32(attributes.find(({ type }) => type === NFTA_GEN_ID)),
    process: name === undefined ? '' : text(name),
  };
}

/** How to read a kind of things: the numbers of its attributes in linux/netfilter/nf_tables.h. */
export interface Kind {
  /** Its NFTA_…_USERDATA, and the type of a comment in it (libnftnl/udata.h). */
  readonly userData: number;
  readonly comment: number;
  /** The attributes that are not part of the fingerprint. */
  readonly changing: readonly number[];
}

/** Without NFTA_TABLE_HANDLE and _PAD; _USE counts chains and sets. */
export const TABLE: Kind = { userData: 6, comment: 0, changing: [4, 5] };

/** Without NFTA_CHAIN_HANDLE, _USE (which counts rules), _COUNTERS and _PAD. */
export const CHAIN: Kind = { userData: 12, comment: 0, changing: [2, 6, 8, 9] };

/** Without NFTA_SET_PAD, _HANDLE and _COUNT (of elements, since Linux 6.16). */
export const SET: Kind = { userData: 13, comment: 7, changing: [14, 16, 20] };

/** Without NFTA_RULE_HANDLE, _POSITION (the handle of the rule before) and _PAD. */
const RULE: Kind = { userData: 7, comment: 0, changing: [3, 6, 8] };

/** Reads NFT_MSG_NEWTABLE, _NEWCHAIN or _NEWSET. */
export function readThing(message: Message, kind: Kind): Thing {
  return describeThing(attributesOf(message), kind);
}

function describeThing(attributes: readonly Attribute[], { userData, comment, changing }: Kind): Thing {
  let fingerprint = '';
  for (const attribute of attributes) if (!changing.includes(attribute.type)) fingerprint += raw(attribute);
  const data = attributes.find(({ type }) => type === userData);
  return { comment: commentIn(data, comment), fingerprint };
}

const NFTA_RULE_HANDLE = 3;
const NFTA_RULE_EXPRESSIONS = 4;

/** Reads NFT_MSG_NEWRULE, and overwrites its counts. */
export function readRule(message: Message): Rule {
  const attributes = attributesOf(message);
  const expressions = expressionsIn(attributes.find(({ type }) => type === NFTA_RULE_EXPRESSIONS));
  const counter = counterIn(expressions);
  blankChanging(expressions);
  return {
    ...describeThing(attributes, RULE),
    handle: u64(attributes.find(({ type }) => type === NFTA_RULE_HANDLE)),
    counter,
    target: expressions.map(targetOf).find((target) => target !== undefined),
  };
}
