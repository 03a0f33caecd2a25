/** What a probe can be asked for. */
import type { RunResult } from '../../../lab/run.ts';

export const PORT = 18_614;

/** Where it listens for errands: an abstract Unix socket, which belongs to the pod's network and needs no file. */
export const CONTROL = '\0ip-masq-agent-probe';

/** What the outcome of a connection without an answer begins with. */
export const FAILED = 'failed: ';

export type Protocol = 'tcp' | 'udp';

export interface Target {
  readonly protocol: Protocol;
  readonly address: string;
}

/** What a server tells its client. */
export interface Seen {
  /** The address that the client's packets have when they arrive. */
  readonly source: string;
  /** The pod of the server. */
  readonly server: string;
}

/** A connection or a flow of datagrams that goes on, with an exchange several times a second. */
export interface Flow {
  /** All sources that the server has seen: one, unless somebody changed the flow. */
  readonly sources: readonly string[];
  readonly exchanges: number;
  /** Datagrams without an answer. */
  readonly lost: number;
}

/** Connections to one target, one after the other. */
export interface Tally {
  readonly target: Target;
  readonly count: number;
  /** Connections in the order in which they were begun, grouped while nothing changes. */
  readonly runs: readonly Run[];
}

export interface Run {
  /** The source that the server saw, or FAILED and the reason. */
  readonly outcome: string;
  readonly count: number;
  /** When its first and its last connection began: milliseconds since the epoch, by the node's clock. */
  readonly from: number;
  readonly to: number;
}

/** Each errand by its name. An errand may come twice, because a broken stream is opened anew. */
export interface Errands {
  /** One new connection, or datagram, to each target, all at once. Fails if one gets no answer. */
  readonly ask: {
    readonly request: { readonly targets: readonly Target[] };
    readonly reply: readonly Seen[];
  };
  /** Begins a flow, unless there is one of this name, and waits for an exchange that begins now. */
  readonly flow: {
    readonly request: { readonly name: string; readonly target: Target };
    readonly reply: Flow;
  };
  readonly closeFlow: { readonly request: { readonly name: string }; readonly reply: true };
  /** Begins to open so many connections a second to each target, in place of all that is not of this name. */
  readonly traffic: {
    readonly request: {
      readonly name: string;
      readonly targets: readonly Target[];
      readonly perSecond: number;
    };
    readonly reply: true;
  };
  /** What has come of the connections so far; all that are begun are waited for. */
  readonly tallies: { readonly request: { readonly stop: boolean }; readonly reply: readonly Tally[] };
  readonly fetch: {
    readonly request: { readonly url: string };
    readonly reply: { readonly status: number | undefined; readonly body: string };
  };
  /** Runs a program in the pod. */
  readonly run: {
    readonly request: { readonly file: string; readonly args: readonly string[]; readonly input: string };
    readonly reply: RunResult;
  };
  /** The processes of a container, the oldest first, as far as the pod sees them. */
  readonly processes: { readonly request: { readonly container: string }; readonly reply: readonly number[] };
}

export type Errand = keyof Errands;

/** One line to the probe. */
export interface Question<Name extends Errand = Errand> {
  readonly id: number;
  readonly errand: Name;
  readonly request: Errands[Name]['request'];
}

/** One line from it. */
export interface Answer {
  readonly id: number;
  readonly reply?: unknown;
  readonly error?: string;
}
