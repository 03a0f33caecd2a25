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
import type { Hook } from './replies.ts';
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

/** One step of a transaction. What is added must not be there yet, except flags of a table. */
export type Change =
  | (TableName & { readonly kind: 'add table'; readonly comment: string })
  | (TableName & { readonly kind: 'delete table' })
  /** A set of intervals of addresses. */
  | (SetName & { readonly kind: 'add set'; readonly counts: boolean; readonly comment: string })
  | (SetName & { readonly kind: 'delete set' })
  | (SetName & { readonly kind: 'add elements' | 'delete elements'; readonly ranges: readonly Range[] })
  | (ChainName & { readonly kind: 'add chain'; readonly hook: Hook; readonly comment: string })
  /** `flush` deletes the rules of the chain, which stays. */
  | (ChainName & { readonly kind: 'delete chain' | 'flush chain' })
  | (ChainName & {
      readonly kind: 'add rule';
      readonly expressions: readonly KnownExpression[];
      readonly comment: string | undefined;
    });

/** How nft(8) numbers the types of keys: TYPE_IPADDR and TYPE_IP6ADDR. */
export const KEY_TYPE = { IPv4: 7, IPv6: 8 } as const;

/** An attribute has at most 64 KiB, and a range of IPv6 at most 64 bytes. */
const RANGES_IN_A_MESSAGE = 1_000;

/** The requests of a change, in messages that are not too long. */
export function* requestsOf(change: Change): Generator<Request> {
  const { family, table } = change;
  const { protocol, bytes } = NFPROTO[family];
  const request = (type: number, flags: number, ...attributes: readonly Buffer[]): Request => {
    return { type, flags, protocol, attributes: [attribute(NFTA.table.name, table), ...attributes] };
  };
  switch (change.kind) {
    case 'add table': {
      const userData = attribute(NFTA.table.userData, writeUserData('table', change.comment));
      yield request(NFT_MSG.newTable, NLM_F.createExclusive, userData);
      return;
    }
    case 'delete table':
      yield request(NFT_MSG.deleteTable, NLM_F.none);
      return;
    case 'add set':
      yield request(
        NFT_MSG.newSet,
        NLM_F.createExclusive,
        attribute(NFTA.set.name, change.set),
        attribute(NFTA.set.flags, bytesOf(NFT_SET.interval, 4)),
        attribute(NFTA.set.keyType, bytesOf(KEY_TYPE[family], 4)),
        attribute(NFTA.set.keyLength, bytesOf(bytes, 4)),
        attribute(NFTA.set.id, bytesOf(1, 4)),
        attribute(NFTA.set.userData, writeUserData('set', change.comment)),
        ...(change.counts ? [writeExpression({ name: 'counter' }, NFTA.set.expression)] : []),
      );
      return;
    case 'delete set':
      yield request(NFT_MSG.deleteSet, NLM_F.none, attribute(NFTA.set.name, change.set));
      return;
    case 'add elements':
    case 'delete elements': {
      const isNew = change.kind === 'add elements';
      const [type, flags] = isNew
        ? [NFT_MSG.newSetElement, NLM_F.createExclusive]
        : [NFT_MSG.deleteSetElement, NLM_F.none];
      for (let at = 0; at < change.ranges.length; at += RANGES_IN_A_MESSAGE) {
        const elements = writeElements(change.ranges.slice(at, at + RANGES_IN_A_MESSAGE), bytes);
        yield request(type, flags, attribute(NFTA.set.name, change.set), elements);
      }
      return;
    }
    case 'add chain': {
      const { hook } = change;
      yield request(
        NFT_MSG.newChain,
        NLM_F.createExclusive,
        attribute(NFTA.chain.name, change.chain),
        attribute(NFTA.chain.hook, [
          attribute(NFTA.hook.number, bytesOf(hook.number, 4)),
          attribute(NFTA.hook.priority, bytesOf(hook.priority >>> 0, 4)),
        ]),
        attribute(NFTA.chain.policy, bytesOf(hook.policy, 4)),
        attribute(NFTA.chain.type, hook.type),
        attribute(NFTA.chain.userData, writeUserData('chain', change.comment)),
      );
      return;
    }
    case 'delete chain':
      yield request(NFT_MSG.deleteChain, NLM_F.none, attribute(NFTA.chain.name, change.chain));
      return;
    case 'flush chain':
      yield request(NFT_MSG.deleteRule, NLM_F.none, attribute(NFTA.rule.chain, change.chain));
      return;
    case 'add rule': {
      const { comment } = change;
      yield request(
        NFT_MSG.newRule,
        NLM_F.append,
        attribute(NFTA.rule.chain, change.chain),
        attribute(
          NFTA.rule.expressions,
          change.expressions.map((one) => writeExpression(one)),
        ),
        ...(comment === undefined ? [] : [attribute(NFTA.rule.userData, writeUserData('rule', comment))]),
      );
    }
  }
}

/** The name of the expression at an offset in the message of such a request; undefined if there is none. */
export function expressionAt({ attributes }: Request, offset: number): string | undefined {
  // Behind the two headers of a message come the attributes, the expressions in the last but one or last of them.
  let at = 20;
  for (const one of attributes) {
    // NFTA_LIST_ELEM, NFTA_EXPR_NAME, then the name.
    if (offset > at && offset + 8 < at + one.length) {
      const start = offset - at;
      const name = one.toString(
        'latin1',
        start + 8,
        start + 8 + Math.max(0, one.readUInt16LE(start + 4) - 5),
      );
      return /^[a-z]+$/.test(name) ? name : undefined;
    }
    at += one.length;
  }
  return undefined;
}
