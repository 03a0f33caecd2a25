import type { Writer } from './attributes.ts';
import { Connection, type Request } from './connection.ts';
import { ElementReader, type Elements, RANGES_IN_A_MESSAGE, type Range, writeElements } from './elements.ts';
import { malformed } from './error.ts';
import { type BatchMessage, FLAGS, NFT_MSG, PROTOCOLS } from './messages.ts';
import {
  CHAIN,
  type Generation,
  type Kind,
  type Rule,
  readGeneration,
  readRule,
  readThing,
  SET,
  TABLE,
  type Thing,
} from './replies.ts';

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
    return this.#get(name, REQUESTS.table, TABLE);
  }

  /** Undefined if there is no such chain. Hook, priority and policy are in the fingerprint. */
  chain(name: ChainName): Promise<Thing | undefined> {
    return this.#get(name, REQUESTS.chain, CHAIN, name.chain);
  }

  /** Undefined if there is no such set. Flags, types and statements of the set are in the fingerprint. */
  set(name: SetName): Promise<Thing | undefined> {
    return this.#get(name, REQUESTS.set, SET, name.set);
  }

  /** The rules of a chain in their order; none if there is no such chain. */
  async rules(name: ChainName): Promise<readonly Rule[]> {
    const rules: Rule[] = [];
    const request = requestFor(name, REQUESTS.rules, name.chain);
    await this.#connection.dump(request, (reply) => rules.push(readRule(reply)));
    return rules;
  }

  /** The elements of an interval set of addresses; undefined if there is no such set. */
  async elements(name: SetName): Promise<Elements | undefined> {
    const reader = new ElementReader(KEY_BYTES[name.family]);
    const request = requestFor(name, REQUESTS.elements, name.set);
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

  #get(table: TableName, form: RequestForm, kind: Kind, name?: string): Promise<Thing | undefined> {
    return this.#connection.get(requestFor(table, form, name), (reply) => readThing(reply, kind));
  }
}

const KEY_BYTES = { IPv4: 4, IPv6: 16 } as const;

/** The attribute with the name of the table is the same in all requests: NFTA_TABLE_NAME, NFTA_SET_TABLE and so on. */
const NFTA_TABLE = 1;

/** The numbers of a request in linux/netfilter/nf_tables.h. */
interface RequestForm extends Pick<Request, 'type' | 'reply'> {
  /** What is read, for errors. */
  readonly what: string;
  /** The attribute with the name of the thing, or of what holds it. */
  readonly name: number;
}

const REQUESTS = {
  table: { what: 'table', type: NFT_MSG.getTable, reply: NFT_MSG.newTable, name: NFTA_TABLE },
  chain: { what: 'chain', type: NFT_MSG.getChain, reply: NFT_MSG.newChain, name: 3 },
  set: { what: 'set', type: NFT_MSG.getSet, reply: NFT_MSG.newSet, name: 2 },
  rules: { what: 'rules of', type: NFT_MSG.getRule, reply: NFT_MSG.newRule, name: 2 },
  elements: { what: 'elements of', type: NFT_MSG.getSetElement, reply: NFT_MSG.newSetElement, name: 2 },
} as const satisfies Readonly<Record<string, RequestForm>>;

function requestFor({ family, table }: TableName, form: RequestForm, name?: string): Request {
  return {
    asked: `read the ${form.what} ${describe({ family, table }, name)}`,
    type: form.type,
    reply: form.reply,
    protocol: PROTOCOLS[family],
    content(writer) {
      writer.text(NFTA_TABLE, table);
      if (name !== undefined) writer.text(form.name, name);
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
      writer.text(NFTA_TABLE, table);
      writer.text(REQUESTS.elements.name, set);
      writeElements(writer, part, KEY_BYTES[family]);
    };
    messages.push({ type, flags, protocol: PROTOCOLS[family], content });
  }
  return messages;
}
