import {
  type ChainName,
  type Change,
  nameOf,
  partAt,
  requestOf,
  type SetName,
  type TableName,
} from './change.ts';
import { Connection } from './connection.ts';
import { type Elements, joinElements, readElements } from './elements.ts';
import { malformed, NetlinkError } from './error.ts';
import {
  attribute,
  type Message,
  NFPROTO,
  NFT_MSG,
  NFTA,
  NLM_F,
  TABLE_FAMILIES,
  type TableFamily,
} from './messages.ts';
import {
  type ChainReply,
  type Generation,
  type NatChain,
  type ObjectReply,
  type RuleReply,
  readChain,
  readGeneration,
  readNatChain,
  readObject,
  readRule,
  readSet,
  readTable,
  type SetReply,
  type TableReply,
} from './replies.ts';
import { NetlinkSocket } from './socket.ts';

/** What can be read, and the attribute with its name or the name of what holds it (linux/netfilter/nf_tables.h). */
const READABLE = {
  table: { type: NFT_MSG.getTable, flags: NLM_F.ack, nameType: NFTA.table.name },
  chain: { type: NFT_MSG.getChain, flags: NLM_F.ack, nameType: NFTA.chain.name },
  sets: { type: NFT_MSG.getSet, flags: NLM_F.dump, nameType: NFTA.set.name },
  objects: { type: NFT_MSG.getObject, flags: NLM_F.dump, nameType: NFTA.object.name },
  rules: { type: NFT_MSG.getRule, flags: NLM_F.dump, nameType: NFTA.rule.chain },
  elements: { type: NFT_MSG.getSetElement, flags: NLM_F.dump, nameType: NFTA.set.name, isLong: true },
} as const;

/** nf_tables of the network namespace that this process is in. All methods throw NetlinkError. */
export class NfTables implements Disposable {
  readonly #connection = new Connection(new NetlinkSocket());
  /** The kernel needs seconds to send 100,000 elements or rules: other requests do not wait for that. */
  readonly #long = new Connection();

  /** The port of the socket that makes changes, which the kernel tells with each; undefined if none is open. */
  get port(): number | undefined {
    return this.#connection.port;
  }

  /** The current state: if its id is the same as before, nothing has changed in any table. */
  async generation(): Promise<Generation> {
    const request = { type: NFT_MSG.getGeneration, flags: NLM_F.ack, protocol: 0, attributes: [] };
    const asked = 'read the generation of nf_tables';
    const [generation] = (await this.#connection.ask(asked, request, readGeneration)) ?? [];
    if (generation === undefined) throw malformed('no generation');
    return generation;
  }

  /** Undefined if there is no such table. */
  async table(name: TableName): Promise<TableReply | undefined> {
    return (await this.#ask('table', name, undefined, readTable))?.[0];
  }

  /** Undefined if there is no such chain. */
  async chain(name: ChainName<TableFamily>): Promise<ChainReply | undefined> {
    return (await this.#ask('chain', name, name.chain, readChain))?.[0];
  }

  /** All chains of a table. The kernel sends those of all tables of the family. */
  async chains({ family, table }: TableName): Promise<readonly ChainReply[]> {
    const { protocol, word } = NFPROTO[family];
    const request = { type: NFT_MSG.getChain, flags: NLM_F.dump, protocol, attributes: [] };
    const own = (reply: Message) => {
      const chain = readChain(reply);
      return chain.table === table ? chain : undefined;
    };
    const chains = await this.#connection.ask(`list chains of ${word}`, request, own);
    return chains?.filter((one) => one !== undefined) ?? [];
  }

  /** All sets and maps of a table. */
  async sets(name: TableName): Promise<readonly SetReply[]> {
    return (await this.#ask('sets', name, undefined, readSet)) ?? [];
  }

  /** All objects of a table. */
  async objects(name: TableName): Promise<readonly ObjectReply[]> {
    return (await this.#ask('objects', name, undefined, readObject)) ?? [];
  }

  /**
   * The rules of a chain in their order; none if there is no such chain. If it changes meanwhile, some may be missing.
   *
   * @param name without a chain, the rules of all chains of the table
   * @param mostBytes if given, more bytes are an error
   */
  async rules(
    name: TableName<TableFamily> & Partial<ChainName<TableFamily>>,
    mostBytes?: number,
  ): Promise<readonly RuleReply[]> {
    return (await this.#ask('rules', name, name.chain, readRule, mostBytes)) ?? [];
  }

  /**
   * The elements of a set of ranges; undefined if there is no such set.
   *
   * @param mostBytes if given, more bytes are an error
   */
  async elements(name: SetName, mostBytes?: number): Promise<Elements | undefined> {
    const keyBytes = NFPROTO[name.family].bytes;
    const read = (reply: Message) => readElements(reply, keyBytes);
    const parts = await this.#ask('elements', name, name.set, read, mostBytes);
    return parts && joinElements(parts.flat(), keyBytes);
  }

  /**
   * The base chains of all tables that may masquerade, or keep packets which come in from connection tracking. Of the other chains
   * it keeps nothing.
   */
  async natChains(): Promise<readonly NatChain[]> {
    const request = { type: READABLE.chain.type, flags: NLM_F.dump, protocol: 0, attributes: [] };
    try {
      const chains = await this.#connection.ask('list chains', request, readNatChain);
      return chains?.filter((chain) => chain !== undefined) ?? [];
    } catch (error) {
      // A kernel that lacks nf_tables says this of any request to it (nfnetlink.c).
      if (error instanceof NetlinkError && error.code === 'EINVAL') return [];
      throw error;
    }
  }

  /**
   * Carries out all changes as one transaction: all of them or, with an error, none. It adds 1 to the generation.
   *
   * @param generation if given, the kernel refuses all with ERESTART once anything has changed since that generation
   * @throws {NetlinkError} `changed` if something that is to be made is there, or something that is to be deleted is not; it names
   * the change that the kernel refuses
   */
  async commit(changes: readonly Change[], generation?: number): Promise<void> {
    const requests = function* () {
      for (const change of changes) yield requestOf(change);
    };
    try {
      await this.#connection.change('change nf_tables', requests(), generation);
    } catch (error) {
      if (!(error instanceof NetlinkError) || error.at === undefined || error.code === 'ERESTART')
        throw error;
      const change = changes[error.at.request];
      if (change === undefined) throw error;
      const part = partAt(change, error.at.offset ?? 0);
      throw new NetlinkError(
        error.failure,
        `cannot ${change.kind} ${inWords(change, nameOf(change))}${part === undefined ? '' : ` (${part})`}: ${error.code}`,
        error.code,
        { ...error.at, part },
      );
    }
  }

  [Symbol.dispose](): void {
    this.#connection.close();
    this.#long.close();
  }

  #ask<Reply>(
    kind: keyof typeof READABLE,
    table: TableName<TableFamily>,
    name: string | undefined,
    read: (reply: Message) => Reply,
    mostBytes?: number,
  ): Promise<readonly Reply[] | undefined> {
    const { type, flags, nameType, ...more } = READABLE[kind];
    const attributes = name === undefined ? [] : [attribute(nameType, name)];
    const connection = 'isLong' in more ? this.#long : this.#connection;
    const request = { ...requestFor(table, ...attributes), type, flags };
    return connection.ask(`list ${kind} ${inWords(table, name)}`, request, read, mostBytes);
  }
}

function inWords({ family, table }: TableName<TableFamily>, name = ''): string {
  return `${TABLE_FAMILIES[family].word} ${table} ${name}`.trim();
}

function requestFor({ family, table }: TableName<TableFamily>, ...attributes: readonly Buffer[]) {
  return {
    protocol: TABLE_FAMILIES[family].protocol,
    attributes: [attribute(NFTA.table.name, table), ...attributes],
  };
}
