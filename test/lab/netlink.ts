import assert from 'node:assert/strict';
import { Netlink as DataplaneNetlink } from '../../lib/dataplane/netlink.ts';
import { NetlinkError, type NetlinkFailure } from '../../lib/netlink/error.ts';
import type { NfTables } from '../../lib/netlink/nf-tables.ts';
import type { Events, TableChange } from '../../lib/netlink/watch.ts';
import type { Box } from './box.ts';
import { startHelper } from './helper.ts';

/** What a process in the box does over its netlink sockets. */
export interface Netlink extends Omit<NfTables, typeof Symbol.dispose | 'port'> {
  /** The port of the socket that makes changes. */
  ownPort(): Promise<number | undefined>;
  /** The changes since the last call, as the watch told them. */
  changes(): Promise<readonly Events<TableChange>[]>;
  /** Carries out messages as they are, in one transaction: what no tool writes. */
  raw(messages: readonly RawMessage[]): Promise<void>;
  /** Makes so many changes of so many elements while nobody reads the watch; what it then tells, and after one more change. */
  flood(times: number, count: number): Promise<readonly Events<TableChange>[]>;
}

export interface RawMessage {
  readonly type: number;
  readonly flags: number;
  readonly protocol: number;
  /** All attributes, as hexadecimal digits. */
  readonly attributes: string;
}

export interface Call {
  readonly method: keyof Netlink;
  readonly values: readonly unknown[];
}

export type Answer =
  | { readonly value: unknown }
  | { readonly failure: NetlinkFailure; readonly message: string; readonly code: string | undefined };

/** The netlink of a host in the box. A failure of it fails the test: the dataplane alone would use its tools, silently. */
export async function hostNetlink(box: Box) {
  const requests = await openNetlink(box);
  const sockets = { openRequests: () => requests, openWatch: () => assert.fail('nothing is watched here') };
  return {
    netlink: new DataplaneNetlink(sockets, (failure) => assert.equal(failure, undefined)),
    [Symbol.asyncDispose]: () => requests[Symbol.asyncDispose](),
  };
}

/** Starts the process in the box. */
export async function openNetlink(box: Box): Promise<Netlink & AsyncDisposable> {
  const helper = await startHelper<string, string>(box, new URL('netlinker.ts', import.meta.url));
  const call =
    (method: keyof Netlink) =>
    async (...values: readonly unknown[]) => {
      const answer = fromText(await helper.ask(toText({ method, values } satisfies Call))) as Answer;
      if ('failure' in answer) throw new NetlinkError(answer.failure, answer.message, answer.code);
      return answer.value;
    };
  const methods = [
    'generation',
    'table',
    'chain',
    'chains',
    'sets',
    'objects',
    'rules',
    'elements',
    'commit',
    'natChains',
    'ownPort',
    'changes',
    'raw',
    'flood',
  ] as const;
  return {
    ...(Object.fromEntries(methods.map((name) => [name, call(name)])) as unknown as Netlink),
    [Symbol.asyncDispose]: () => helper[Symbol.asyncDispose](),
  };
}

/** JSON, in which a large number is a text that ends with n. */
export function toText(value: unknown): string {
  return JSON.stringify(value, (_, value) => (typeof value === 'bigint' ? `${value}n` : value));
}

export function fromText(text: string): unknown {
  return JSON.parse(text, (_, value) =>
    typeof value === 'string' && /^\d+n$/.test(value) ? BigInt(value.slice(0, -1)) : value,
  );
}
