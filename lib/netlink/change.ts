import type { Family } from '../cidr/address.ts';
import type { Range } from '../cidr/ranges.ts';
import { writeElements } from './elements.ts';
import { type KnownExpression, writeExpression } from './expressions.ts';
import {
  attribute,
  bytesOf,
  NFPROTO,
  NFT_MSG,
  NFT_SET,
  NFTA,
  NLM_F,
  type Request,
  type TableFamily,
} from './messages.ts';
import type { Hook, ObjectReply } from './replies.ts';
import { writeUserData } from './user-data.ts';

export interface TableName<Of extends TableFamily = Family> {
  readonly family: Of;
  readonly table: string;
}

export interface ChainName<Of extends TableFamily = Family> extends TableName<Of> {
  readonly chain: string;
}

export interface SetName<Of extends TableFamily = Family> extends TableName<Of> {
  readonly set: string;
}

/** One step of a transaction. What is added must not be there yet, what is deleted or flushed must be. */
export type Change =
  | (TableName & { readonly kind: 'add table'; readonly comment: string })
  /** Flushing deletes the rules of all chains, which stay. */
  | (TableName & { readonly kind: 'delete table' | 'flush table' })
  /** A set of intervals of addresses. */
  | (SetName & { readonly kind: 'add set'; readonly counts: boolean; readonly comment: string })
  | (SetName & { readonly kind: 'delete set' })
  | ElementChange
  | (ChainName & { readonly kind: 'add chain'; readonly hook: Hook; readonly comment: string })
  | (ChainName & { readonly kind: 'delete chain' })
  | (ChainName & {
      readonly kind: 'add rule';
      readonly expressions: readonly KnownExpression[];
      readonly comment: string | undefined;
    })
  | (TableName & ObjectReply & { readonly kind: 'delete object' });

type ElementChange = SetName & {
  readonly kind: 'add elements';
  /** At most 1,000. */
  readonly ranges: readonly Range[];
};

/** How nft(8) numbers the types of keys: TYPE_IPADDR and TYPE_IP6ADDR. */
export const KEY_TYPE = { IPv4: 7, IPv6: 8 } as const;

/** An attribute has at most 64 KiB, and a range of IPv6 at most 64 bytes. */
const RANGES_IN_A_CHANGE = 1_000;

/** The changes that add ranges to a set: as many as the messages need. */
export function addElements(set: SetName, ranges: readonly Range[]): readonly ElementChange[] {
  const count = Math.ceil(ranges.length / RANGES_IN_A_CHANGE);
  return Array.from({ length: count }, (_, index) => {
    const from = index * RANGES_IN_A_CHANGE;
    return { kind: 'add elements', ...set, ranges: ranges.slice(from, from + RANGES_IN_A_CHANGE) };
  });
}

/** The type and flags of each request. */
const REQUESTS = {
  'add table': { type: NFT_MSG.newTable, flags: NLM_F.createExclusive },
  'delete table': { type: NFT_MSG.deleteTable, flags: NLM_F.none },
  'flush table': { type: NFT_MSG.deleteRule, flags: NLM_F.none },
  'add set': { type: NFT_MSG.newSet, flags: NLM_F.createExclusive },
  'delete set': { type: NFT_MSG.deleteSet, flags: NLM_F.none },
  'add elements': { type: NFT_MSG.newSetElement, flags: NLM_F.createExclusive },
  'add chain': { type: NFT_MSG.newChain, flags: NLM_F.createExclusive },
  'delete chain': { type: NFT_MSG.deleteChain, flags: NLM_F.none },
  'add rule': { type: NFT_MSG.newRule, flags: NLM_F.append },
  'delete object': { type: NFT_MSG.deleteObject, flags: NLM_F.none },
} as const satisfies Readonly<Record<Change['kind'], object>>;

export function requestOf(change: Change): Request {
  const { family, table, kind } = change;
  const attributes = [attribute(NFTA.table.name, table), ...contentOf(change)];
  return { ...REQUESTS[kind], protocol: NFPROTO[family].protocol, attributes };
}

/** Undefined for the table itself. */
export function nameOf(change: Change): string | undefined {
  const { chain, set, name } = { chain: undefined, set: undefined, name: undefined, ...change };
  return chain ?? set ?? name;
}

/** The attributes behind the name of the table. */
function contentOf(change: Change): readonly Buffer[] {
  switch (change.kind) {
    case 'add table':
      return [attribute(NFTA.table.userData, writeUserData('table', change.comment))];
    case 'delete table':
    case 'flush table':
      return [];
    case 'add set':
      return [
        attribute(NFTA.set.name, change.set),
        attribute(NFTA.set.flags, bytesOf(NFT_SET.interval, 4)),
        attribute(NFTA.set.keyType, bytesOf(KEY_TYPE[change.family], 4)),
        attribute(NFTA.set.keyLength, bytesOf(NFPROTO[change.family].bytes, 4)),
        attribute(NFTA.set.id, bytesOf(1, 4)),
        attribute(NFTA.set.userData, writeUserData('set', change.comment)),
        ...(change.counts ? [writeExpression({ name: 'counter' }, NFTA.set.expression)] : []),
      ];
    case 'delete set':
      return [attribute(NFTA.set.name, change.set)];
    case 'add elements':
      return [
        attribute(NFTA.set.name, change.set),
        writeElements(change.ranges, NFPROTO[change.family].bytes),
      ];
    case 'add chain': {
      const { hook } = change;
      return [
        attribute(NFTA.chain.name, change.chain),
        attribute(NFTA.chain.hook, [
          attribute(NFTA.hook.number, bytesOf(hook.number, 4)),
          attribute(NFTA.hook.priority, bytesOf(hook.priority >>> 0, 4)),
        ]),
        attribute(NFTA.chain.policy, bytesOf(hook.policy, 4)),
        attribute(NFTA.chain.type, hook.type),
        attribute(NFTA.chain.userData, writeUserData('chain', change.comment)),
      ];
    }
    case 'delete chain':
      return [attribute(NFTA.chain.name, change.chain)];
    case 'delete object':
      return [
        attribute(NFTA.object.name, change.name),
        attribute(NFTA.object.type, bytesOf(change.objectType, 4)),
      ];
    case 'add rule': {
      const { comment } = change;
      const expressions = change.expressions.map((one) => writeExpression(one));
      return [
        attribute(NFTA.rule.chain, change.chain),
        attribute(NFTA.rule.expressions, expressions),
        ...(comment === undefined ? [] : [attribute(NFTA.rule.userData, writeUserData('rule', comment))]),
      ];
    }
  }
}

/** The bytes of the headers of a message, and of an attribute that is a list. */
const [MESSAGE_HEADERS, LIST_HEADER] = [20, 4];

/** The part of a change that the kernel may lack: an expression at an offset in the message, or the type of a chain. */
export function partAt(change: Change, offset: number): string | undefined {
  if (change.kind === 'add chain') return 'chain type';
  if (change.kind !== 'add rule') return undefined;
  // Behind the names of table and chain.
  const before = requestOf(change).attributes.slice(0, 2);
  let at = MESSAGE_HEADERS + Buffer.concat(before).length + LIST_HEADER;
  for (const expression of change.expressions) {
    if (at === offset) return expression.name;
    at += writeExpression(expression).length;
  }
  return undefined;
}
