import { Connection } from './connection.ts';
import { type Elements, joinElements, type Range, readElements, writeElements } from './elements.ts';
import { interrupted, malformed, NetlinkError } from './error.ts';
import { attribute, type Family, type Message, NFPROTO, NFT_MSG, NLM_F, type Request } from './messages.ts';
import {
  countElements,
  FAMILY_IDS,
  type Generation,
  type NatChain,
  type RuleReply,
  readContent,
  readGeneration,
  readNatChain,
  readRule,
  readSetName,
  readSnapshot,
  type Snapshot,
} from './replies.ts';
import { NetlinkSocket } from './socket.ts';

interface TableName {
  readonly family: Family;
  readonly table: string;
}

export interface ChainName extends TableName {
  readonly chain: string;
}

export interface SetName extends TableName {
  readonly set: string;
}

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
  table: { type: 0x0a01, flags: NLM_F.ack, nameType: TABLE_NAME },
  chain: { type: 0x0a04, flags: NLM_F.ack, nameType: 3 },
  set: { type: 0x0a0a, flags: NLM_F.ack, nameType: SET_NAME },
  rules: { type: 0x0a07, flags: NLM_F.dump, nameType: 2 },
  elements: { type: 0x0a0d, flags: NLM_F.dump, nameType: SET_NAME },
} as const;

/** An attribute has at most 64 KiB, and a range of IPv6 at most 64 bytes. */
const RANGES_IN_A_MESSAGE = 1_000;

/** nf_tables of the network namespace that this process is in. All methods throw NetlinkError. */
export class NfTables implements Disposable {
  readonly #connection = new Connection(new NetlinkSocket());
  /** The kernel needs seconds to send 100,000 elements: other requests do not wait for that. */
  readonly #elements = new Connection();

  /** The current state: if its id is the same as before, nothing has changed in any table. */
  async generation(): Promise<Generation> {
    const request = { type: NFT_MSG.getGeneration, flags: NLM_F.ack, protocol: 0, attributes: [] };
    const asked = 'read the generation of nf_tables';
    const [generation] = (await this.#connection.ask(asked, request, readGeneration)) ?? [];
    if (generation === undefined) throw malformed('no generation');
    return generation;
  }

  /** Undefined if there is no such table. Its fingerprint changes with the number of its chains and sets. */
  table(name: TableName): Promise<Snapshot | undefined> {
    return this.#snapshot('table', name);
  }

  /** Undefined if there is no such chain. Hook, priority and policy are in the fingerprint. */
  chain(name: ChainName): Promise<Snapshot | undefined> {
    return this.#snapshot('chain', name, name.chain);
  }

  /** Undefined if there is no such set. Flags, types and statements of the set are in the fingerprint. */
  set(name: SetName): Promise<Snapshot | undefined> {
    return this.#snapshot('set', name, name.set);
  }

  /**
   * The rules of a chain in their order; none if there is no such chain. If it changes meanwhile, some may be missing.
   *
   * @param name without a chain, the rules of all chains of the table
   * @param leadingTo if given, only those that lead to this chain
   */
  async rules(name: TableName & Partial<ChainName>, leadingTo?: string): Promise<readonly RuleReply[]> {
    const rules = await this.#ask('rules', name, name.chain, (reply) => readRule(reply, leadingTo));
    return rules?.filter((rule) => rule !== undefined) ?? [];
  }

  /** The elements of an interval set of addresses; undefined if there is no such set. */
  async elements(name: SetName): Promise<Elements | undefined> {
    const { bytes: keyBytes } = NFPROTO[name.family];
    const parts = await this.#ask('elements', name, name.set, (reply) => readElements(reply, keyBytes));
    return parts && joinElements(parts, keyBytes);
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

  /** What the set holds, whatever its type; undefined if there is no such set. For small sets that do not count. */
  content(name: SetName): Promise<readonly Snapshot[] | undefined> {
    return this.#ask('elements', name, name.set, readContent);
  }

  /** The base chains of all tables that may masquerade. Of the other chains it keeps nothing. */
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
    const [found] =
      (await this.#connection.ask(asked, ofChain, (reply) => readSnapshot(reply, 'chain'))) ?? [];
    if (found === undefined) return undefined;
    let elements = 0;
    const count = (reply: Message): void => {
      elements += countElements(reply);
      // Ends the dump.
      if (elements > mostElements) throw interrupted(asked);
    };
    const sets = await this.#connection.ask(asked, request(READABLE.set.type, NLM_F.dump), readSetName);
    try {
      for (const set of sets ?? []) {
        const ofSet = request(READABLE.elements.type, NLM_F.dump, attribute(SET_NAME, set));
        await this.#elements.ask(asked, ofSet, count);
      }
    } catch (error) {
      if (!(error instanceof NetlinkError) || elements <= mostElements) throw error;
    }
    return { rules: found.use ?? 0, elements };
  }

  /**
   * Deletes ranges from an interval set and adds others: all of it or, with an error, nothing. If a range that is to be
   * deleted is not in the set, or one that is to be added is or overlaps one, it fails with `changed`.
   */
  async change(name: SetName, remove: readonly Range[], add: readonly Range[]): Promise<void> {
    const asked = `delete ${remove.length} and add ${add.length} elements of ${inWords(name, name.set)}`;
    const requests = function* () {
      yield* elementRequests(name, { type: NFT_MSG.deleteSetElement, flags: NLM_F.none }, remove);
      yield* elementRequests(name, { type: NFT_MSG.newSetElement, flags: NLM_F.createExclusive }, add);
    };
    if (remove.length + add.length > 0) await this.#connection.change(asked, requests());
  }

  [Symbol.dispose](): void {
    this.#connection.close();
    this.#elements.close();
  }

  async #snapshot(
    kind: 'table' | 'chain' | 'set',
    table: TableName,
    name?: string,
  ): Promise<Snapshot | undefined> {
    const snapshots = await this.#ask(kind, table, name, (reply) => readSnapshot(reply, kind));
    if (snapshots?.length === 0) throw malformed(`no ${kind}`);
    return snapshots?.[0];
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

/** Requests that change elements, in messages that are not too long. */
function* elementRequests(
  name: SetName,
  kind: Pick<Request, 'type' | 'flags'>,
  ranges: readonly Range[],
): Generator<Request> {
  for (let index = 0; index < ranges.length; index += RANGES_IN_A_MESSAGE) {
    const part = ranges.slice(index, index + RANGES_IN_A_MESSAGE);
    const elements = writeElements(part, NFPROTO[name.family].bytes);
    yield { ...requestFor(name, attribute(SET_NAME, name.set), elements), ...kind };
  }
}
