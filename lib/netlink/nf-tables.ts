import { type Attribute, raw, text, u32, u64, type Writer } from './attributes.ts';
import { Connection, type Request } from './connection.ts';
import { ElementReader, type Elements, RANGES_IN_A_MESSAGE, type Range, writeElements } from './elements.ts';
import { malformed } from './error.ts';
import { blankChanging, type Counter, commentIn, counterIn, expressionsIn, targetOf } from './expressions.ts';
import { attributesOf, type BatchMessage, FLAGS, type Message, NFT_MSG, PROTOCOLS } from './messages.ts';

export interface TableName {
  readonly family: keyof typeof PROTOCOLS;
  readonly table: string;
}

export interface ChainName extends TableName {
  readonly chain: string;
}

export interface SetName extends TableName {
  readonly set: string;
}

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

/** nf_tables of the network namespace that this process is in. All methods throw NetlinkError. */
export class NfTables implements Disposable {
  readonly #connection = new Connection();

  /** The current state: if its id is the same as before, nothing has changed in any table. */
  async generation(): Promise<Generation> {
    const asked = 'read the generation of nf_tables';
    const { getGeneration: type, newGeneration: reply } = NFT_MSG;
    const generation = await this.#connection.get({ asked, type, reply, protocol: 0 }, readGeneration);
    if (generation === undefined) throw malformed('no generation');
    return generation;
  }

  /** Undefined if there is no such table. Its fingerprint changes with the number of its chains and sets. */
  table(name: TableName): Promise<Thing | undefined> {
    const request = requestFor(name, 'table', NFT_MSG.getTable, NFT_MSG.newTable);
    return this.#connection.get(request, (reply) => readThing(reply, KINDS.table));
  }

  /** Undefined if there is no such chain. Hook, priority and policy are in the fingerprint. */
  chain(name: ChainName): Promise<Thing | undefined> {
    const request = requestFor(name, `chain`, NFT_MSG.getChain, NFT_MSG.newChain, name.chain, 3);
    return this.#connection.get(request, (reply) => readThing(reply, KINDS.chain));
  }

  /** Undefined if there is no such set. Flags, types and statements of the set are in the fingerprint. */
  set(name: SetName): Promise<Thing | undefined> {
    const request = requestFor(name, 'set', NFT_MSG.getSet, NFT_MSG.newSet, name.set);
    return this.#connection.get(request, (reply) => readThing(reply, KINDS.set));
  }

  /** The rules of a chain in their order; none if there is no such chain. */
  async rules(name: ChainName): Promise<readonly Rule[]> {
    const request = requestFor(name, 'rules of', NFT_MSG.getRule, NFT_MSG.newRule, name.chain);
    const rules: Rule[] = [];
    await this.#connection.dump(request, (reply) => rules.push(readRule(reply)));
    return rules;
  }

  /** The elements of an interval set of addresses; undefined if there is no such set. */
  async elements(name: SetName): Promise<Elements | undefined> {
    const request = requestFor(name, 'elements of', NFT_MSG.getSetElement, NFT_MSG.newSetElement, name.set);
    const reader = new ElementReader(KEY_BYTES[name.family]);
    const found = await this.#connection.dump(request, (reply) => reader.read(reply));
    return found ? reader.elements : undefined;
  }

  /**
   * Deletes ranges from an interval set and adds others: all of it or, with an error, nothing. If a range that is to be
   * deleted is not in the set, or one that is to be added is or overlaps one, it fails with `changed`.
   */
  async change(name: SetName, remove: readonly Range[], add: readonly Range[]): Promise<void> {
    const asked = `delete ${remove.length} and add ${add.length} elements of ${describe(name, name.set)}`;
    const { deleteSetElement, newSetElement } = NFT_MSG;
    const messages = [
      ...elementMessages(name, deleteSetElement, FLAGS.none, remove),
      ...elementMessages(name, newSetElement, FLAGS.createExclusive, add),
    ];
    if (messages.length > 0) await this.#connection.change(messages, asked);
  }

  /** Closes the socket after the pending requests. */
  [Symbol.dispose](): void {
    this.#connection.close();
  }
}

const KEY_BYTES = { IPv4: 4, IPv6: 16 } as const;

/**
 * The first two attributes are the same in all requests (NFTA_TABLE_NAME and, for instance, NFTA_SET_ELEM_LIST_TABLE),
 * but for NFTA_CHAIN_NAME.
 */
const ATTRIBUTE_OF_TABLE = 1;
const ATTRIBUTE_OF_NAME = 2;

function requestFor(
  { family, table }: TableName,
  what: string,
  type: number,
  reply: number,
  name?: string,
  attribute = ATTRIBUTE_OF_NAME,
): Request {
  return {
    asked: `read ${what} ${describe({ family, table }, name)}`,
    type,
    reply,
    protocol: PROTOCOLS[family],
    content(writer) {
      writer.text(ATTRIBUTE_OF_TABLE, table);
      if (name !== undefined) writer.text(attribute, name);
    },
  };
}

function describe({ family, table }: TableName, name = ''): string {
  return [family === 'IPv4' ? 'ip' : 'ip6', table, name].join(' ').trim();
}

function elementMessages(
  { family, table, set }: SetName,
  type: number,
  flags: number,
  ranges: readonly Range[],
): readonly BatchMessage[] {
  const messages: BatchMessage[] = [];
  for (let from = 0; from < ranges.length; from += RANGES_IN_A_MESSAGE) {
    const part = ranges.slice(from, from + RANGES_IN_A_MESSAGE);
    const content = (writer: Writer) => {
      writer.text(ATTRIBUTE_OF_TABLE, table);
      writer.text(ATTRIBUTE_OF_NAME, set);
      writeElements(writer, part, KEY_BYTES[family]);
    };
    messages.push({ type, flags, protocol: PROTOCOLS[family], content });
  }
  return messages;
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

/** The attributes of a kind of things in linux/netfilter/nf_tables.h. */
interface Kind {
  /** Its NFTA_…_USERDATA, and the type of a comment in it (libnftnl/udata.h). */
  readonly userData: number;
  readonly comment: number;
  /** Those that are not part of the fingerprint. */
  readonly changing: readonly number[];
}

export const KINDS = {
  // NFTA_TABLE_HANDLE and _PAD; _USE counts chains and sets.
  table: { userData: 6, comment: 0, changing: [4, 5] },
  // NFTA_CHAIN_HANDLE, _USE (which counts rules), _COUNTERS and _PAD.
  chain: { userData: 12, comment: 0, changing: [2, 6, 8, 9] },
  // NFTA_SET_PAD, _HANDLE and _COUNT (of elements, since Linux 6.16).
  set: { userData: 13, comment: 7, changing: [14, 16, 20] },
  // NFTA_RULE_HANDLE, _POSITION (the handle of the rule before) and _PAD.
  rule: { userData: 7, comment: 0, changing: [3, 6, 8] },
} as const satisfies Readonly<Record<string, Kind>>;

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
    ...describeThing(attributes, KINDS.rule),
    handle: u64(attributes.find(({ type }) => type === NFTA_RULE_HANDLE)),
    counter,
    target: expressions.map(targetOf).find((target) => target !== undefined),
  };
}
