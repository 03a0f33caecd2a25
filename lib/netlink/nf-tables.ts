import {
  type ChainName,
  type Change,
  expressionAt,
  requestsOf,
  type SetName,
  type TableName,
} from './change.ts';
import { Connection } from './connection.ts';
import { type Elements, joinElements, type Range, readElements, writeElements } from './elements.ts';
import { interrupted, malformed, NetlinkError } from './error.ts';
import { targetOf } from './expressions.ts';
import { attribute, type Message, NFPROTO, NFT_MSG, NLM_F, type Request } from './messages.ts';
import {
  type ChainReply,
  countElements,
  FAMILY_IDS,
  type Generation,
  type Hook,
  isNat,
  isRaw,
  type NatChain,
  type RuleReply,
  readBaseChain,
  readChain,
  readGeneration,
  readRule,
  readSet,
  readTable,
  type SetReply,
  type TableReply,
} from './replies.ts';
import { NetlinkSocket } from './socket.ts';

interface Size {
  /** The rules of a chain, and whatever leads to it. */
  readonly rules: number;
  readonly elements: number;
}

/** NFTA_TABLE_NAME, NFTA_CHAIN_TABLE and so on. */
const TABLE_NAME = 1;
/** NFTA_SET_NAME and NFTA_SET_ELEM_LIST_SET. */
const SET_NAME = 2;

/** What can be read, and the attribute with its name or the name of what holds it (linux/netfilter/nf_tables.h). */
const READABLE = {
  table: { type: NFT_MSG.getTable, flags: NLM_F.ack, nameType: TABLE_NAME },
  chain: { type: NFT_MSG.getChain, flags: NLM_F.ack, nameType: 3 },
  sets: { type: NFT_MSG.getSet, flags: NLM_F.dump, nameType: SET_NAME },
  rules: { type: NFT_MSG.getRule, flags: NLM_F.dump, nameType: 2 },
  elements: { type: NFT_MSG.getSetElement, flags: NLM_F.dump, nameType: SET_NAME },
} as const;

/** nf_tables of the network namespace that this process is in. All methods throw NetlinkError. */
export class NfTables implements Disposable {
  readonly #connection = new Connection(new NetlinkSocket());
  /** The kernel needs seconds to send 100,000 elements: other requests do not wait for that. */
  readonly #elements = new Connection();

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
    return only('table', await this.#ask('table', name, undefined, readTable));
  }

  /** Undefined if there is no such chain. */
  async chain(name: ChainName): Promise<ChainReply | undefined> {
    return only('chain', await this.#ask('chain', name, name.chain, readChain));
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

  /**
   * The rules of a chain in their order; none if there is no such chain. If it changes meanwhile, some may be missing.
   *
   * @param name without a chain, the rules of all chains of the table
   * @param leadingTo if given, only those that lead to this chain
   */
  async rules(name: TableName & Partial<ChainName>, leadingTo?: string): Promise<readonly RuleReply[]> {
    const read = (reply: Message) => {
      const rule = readRule(reply);
      return leadingTo === undefined || targetOf(rule.expressions) === leadingTo ? rule : undefined;
    };
    const rules = await this.#ask('rules', name, name.chain, read);
    return rules?.filter((rule) => rule !== undefined) ?? [];
  }

  /** The elements of a set of addresses; undefined if there is no such set. */
  async elements(name: SetName, isInterval = true): Promise<Elements | undefined> {
    const { bytes: keyBytes } = NFPROTO[name.family];
    const parts = await this.#ask('elements', name, name.set, (reply) => readElements(reply, keyBytes));
    return parts && joinElements(parts, keyBytes, isInterval);
  }

  /** Whether both edges of a range are in an interval set, however much else changes meanwhile. */
  async hasRange(name: SetName, range: Range): Promise<boolean> {
    const { bytes: keyBytes } = NFPROTO[name.family];
    const highest = 256n ** BigInt(keyBytes) - 1n;
    const next = range.last + 1n;
    // For a key that is no edge of a range, the kernel sends the edge below it.
    const hasEdges = async (ranges: readonly Range[], keys: readonly bigint[]) => {
      const attributes = [attribute(SET_NAME, name.set), writeElements(ranges, keyBytes)];
      const request = { ...requestFor(name, ...attributes), type: READABLE.elements.type, flags: NLM_F.ack };
      const asked = `get an element of ${inWords(name, name.set)}`;
      const parts = await this.#connection.ask(asked, request, (reply) => readElements(reply, keyBytes));
      return parts?.flatMap(({ edges }) => edges.map(({ key }) => key)).join() === keys.join();
    };
    if (range.last === highest) return await hasEdges([range], [range.first]);
    // The beginning of the next range may be its only end.
    const beginnings = [range.first, next].map((first) => ({ first, last: highest }));
    return (
      (await hasEdges([range], [range.first, next])) || (await hasEdges(beginnings, [range.first, next]))
    );
  }

  /** The base chains of all tables that may masquerade. Of the other chains it keeps nothing. */
  natChains(): Promise<readonly NatChain[]> {
    return this.#baseChains(isNat);
  }

  /** The base chains of all tables that may keep packets which come in from connection tracking. */
  rawChains(): Promise<readonly NatChain[]> {
    return this.#baseChains(isRaw);
  }

  async #baseChains(isWanted: (hook: Hook) => boolean): Promise<readonly NatChain[]> {
    const request = { type: READABLE.chain.type, flags: NLM_F.dump, protocol: 0, attributes: [] };
    try {
      const read = (reply: Message) => readBaseChain(reply, isWanted);
      const chains = await this.#connection.ask('list chains', request, read);
      return chains?.filter((chain) => chain !== undefined) ?? [];
    } catch (error) {
      // A kernel that lacks nf_tables says this of any request to it (nfnetlink.c).
      if (error instanceof NetlinkError && error.code === 'EINVAL') return [];
      throw error;
    }
  }

  /** The rules of a chain in a table of any family; undefined if there is no such chain. */
  async rulesOf({
    family,
    table,
    chain,
  }: Omit<NatChain, 'priority'>): Promise<readonly RuleReply[] | undefined> {
    const { protocol = 0 } = FAMILY_IDS.find(({ word }) => word === family) ?? {};
    const { type, flags, nameType } = READABLE.rules;
    const attributes = [attribute(TABLE_NAME, table), attribute(nameType, chain)];
    const asked = `list rules ${family} ${table} ${chain}`;
    return await this.#connection.ask(asked, { type, flags, protocol, attributes }, readRule);
  }

  /**
   * How much a chain holds, and all sets of its table together, because nft(8) fetches them with any chain. The counting
   * of elements ends above the limit. Undefined if there is no such chain.
   */
  async size(
    { family, table, chain }: Omit<NatChain, 'priority'>,
    mostElements: number,
  ): Promise<Size | undefined> {
    const { protocol = 0 } = FAMILY_IDS.find(({ word }) => word === family) ?? {};
    const asked = `count what chain ${family} ${table} ${chain} holds`;
    const request = (type: number, flags: number, ...names: readonly Buffer[]) => {
      return { type, flags, protocol, attributes: [attribute(TABLE_NAME, table), ...names] };
    };
    const ofChain = request(READABLE.chain.type, NLM_F.ack, attribute(READABLE.chain.nameType, chain));
    const [found] = (await this.#connection.ask(asked, ofChain, readChain)) ?? [];
    if (found === undefined) return undefined;
    let elements = 0;
    const count = (reply: Message): void => {
      elements += countElements(reply);
      // Ends the dump.
      if (elements > mostElements) throw interrupted(asked);
    };
    const sets = await this.#connection.ask(asked, request(READABLE.sets.type, NLM_F.dump), readSet);
    try {
      for (const { name } of sets ?? []) {
        const ofSet = request(READABLE.elements.type, NLM_F.dump, attribute(SET_NAME, name));
        await this.#elements.ask(asked, ofSet, count);
      }
    } catch (error) {
      if (!(error instanceof NetlinkError) || elements <= mostElements) throw error;
    }
    return { rules: found.use, elements };
  }

  /**
   * Carries out all changes as one transaction: all of them or, with an error, none.
   *
   * @throws {NetlinkError} `changed` if something that is to be made is there, or something that is to be deleted is not; it names
   * the change that the kernel refuses
   */
  async commit(changes: readonly Change[]): Promise<void> {
    const requests: { readonly request: Request; readonly change: Change }[] = [];
    const all = function* () {
      for (const change of changes)
        for (const request of requestsOf(change)) {
          requests.push({ request, change });
          yield request;
        }
    };
    try {
      await this.#connection.change('change nf_tables', all());
    } catch (error) {
      if (!(error instanceof NetlinkError) || error.at === undefined) throw error;
      const { request, change } = requests[error.at.request] ?? {};
      if (request === undefined || change === undefined) throw error;
      const part = expressionAt(request, error.at.offset ?? 0);
      throw new NetlinkError(
        error.failure,
        `cannot ${changeText(change)}${part === undefined ? '' : ` (${part})`}: ${error.code}`,
        error.code,
        { ...error.at, expression: part },
      );
    }
  }

  [Symbol.dispose](): void {
    this.#connection.close();
    this.#elements.close();
  }

  #ask<Reply>(
    kind: keyof typeof READABLE,
    table: TableName,
    name: string | undefined,
    read: (reply: Message) => Reply,
  ): Promise<readonly Reply[] | undefined> {
    const { type, flags, nameType } = READABLE[kind];
    const attributes = name === undefined ? [] : [attribute(nameType, name)];
    const connection = kind === 'elements' ? this.#elements : this.#connection;
    const request = { ...requestFor(table, ...attributes), type, flags };
    return connection.ask(`list ${kind} ${inWords(table, name)}`, request, read);
  }
}

function inWords({ family, table }: TableName, name = ''): string {
  return `${NFPROTO[family].word} ${table} ${name}`.trim();
}

function requestFor({ family, table }: TableName, ...attributes: readonly Buffer[]) {
  return { protocol: NFPROTO[family].protocol, attributes: [attribute(TABLE_NAME, table), ...attributes] };
}

/** A change in words, as in `add rule ip t c`. */
function changeText(change: Change): string {
  const name = 'chain' in change ? change.chain : 'set' in change ? change.set : undefined;
  return `${change.kind} ${inWords(change, name)}`;
}

function only<Reply>(kind: string, replies: readonly Reply[] | undefined): Reply | undefined {
  if (replies?.length === 0) throw malformed(`no ${kind}`);
  return replies?.[0];
}
