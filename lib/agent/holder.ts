import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { vanishedText } from '../config/config-file.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import { errorCode, errorMessage } from '../text/error.ts';
import { peerOf } from './unix-socket.ts';

/**
 * The name of the lock: an abstract Unix socket (unix(7)). It belongs to the network namespace, and ends with the
 * process that holds it.
 */
export const LOCK = '\0ip-masq-agent';

/** What the holder of the lock says about itself, to root only. */
export interface Introduction {
  readonly version: string;
  /** Its flags of policy and dataplane, such as `--enable-ipv6=true`. */
  readonly flags: readonly string[];
  /** Its state as plain values, an AgentState of its version; absent of the command cleanup. */
  readonly state?: object | undefined;
}

/** A process of root that holds the lock. */
export interface Agent {
  readonly kind: 'agent';
  /** 0 if this process cannot see it, as in another container. */
  readonly pid: number;
  /** Undefined if it is too busy to answer, or does not know that this process is root. */
  readonly introduction: Introduction | undefined;
}

export type Holder =
  | { readonly kind: 'none' }
  | Agent
  /** A process that is not an agent, or cannot be proven to be one. */
  | { readonly kind: 'unproven'; readonly reason: string; readonly code?: string | undefined };

const ANSWER_MS = 1_000;
/** Characters. The longest argument of a program is 128 KiB (execve(2)), and a flag may be one. */
const LONGEST_ANSWER = 256 * 1024;

/**
 * Codes of failures that pass: the queue is full, which any user of the node can cause; the holder ends; the answer takes too long.
 */
const TRANSIENT = ['EAGAIN', 'ECONNRESET', 'EPIPE', 'ABORT_ERR'];

const LONGEST_WAIT_MS = 2_000;
const PAUSE_MS = 20;

/** Asks who holds the lock. Any user of the node can bind the name, so only a process of root counts as an agent. */
export async function findHolder(): Promise<Holder> {
  for (const start = performance.now(); ; await delay(PAUSE_MS)) {
    const holder = await askHolder();
    const isTransient = holder.kind === 'unproven' && TRANSIENT.includes(holder.code ?? '');
    if (!isTransient || performance.now() - start > LONGEST_WAIT_MS) return holder;
  }
}

async function askHolder(): Promise<Holder> {
  const socket = connect(LOCK);
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(ANSWER_MS) });
    const { pid, uid } = peerOf(socket);
    if (uid !== 0) return { kind: 'unproven', reason: `user ${uid} holds the lock${processName(pid)}` };
    return { kind: 'agent', pid, introduction: await introductionOf(socket) };
  } catch (error) {
    // Nobody listens.
    const code = errorCode(error);
    if (code === 'ECONNREFUSED') return { kind: 'none' };
    return { kind: 'unproven', reason: errorMessage(error).replaceAll('\0', '@'), code };
  } finally {
    socket.destroy();
  }
}

export function agentText({ pid, introduction }: Agent): string {
  return `ip-masq-agent ${introduction?.version ?? 'of unknown version'}${processName(pid)}`;
}

function processName(pid: number): string {
  return pid === 0 ? '' : ` (process ${pid})`;
}

/** What the agent tells of its state, in the form of its version; empty if it tells nothing. */
function stateOf(holder: Holder): {
  readonly dataplane?: Partial<Record<'name' | 'reason', unknown>> | null;
  readonly pending?: Partial<Record<'hash' | 'appliedAt', unknown>> | null;
  readonly vanished?: unknown;
} {
  return (holder.kind === 'agent' && holder.introduction?.state) || {};
}

/** The dataplane of the agent, and why it is in use; undefined if it does not tell. */
export function dataplaneOf(holder: Holder): Pick<Dataplane, 'name' | 'reason'> | undefined {
  const { name, reason } = stateOf(holder).dataplane ?? {};
  return typeof name === 'string' && typeof reason === 'string' ? { name, reason } : undefined;
}

/** The config files of the agent that are gone, and until when their last texts apply. */
export function vanishedFilesOf(
  holder: Holder,
): readonly { readonly file: string; readonly until: string }[] {
  const { vanished } = stateOf(holder);
  return (Array.isArray(vanished) ? vanished : []).flatMap((one) => {
    const { file, until }: { readonly file?: unknown; readonly until?: unknown } = one ?? {};
    return typeof file === 'string' && typeof until === 'string' ? [{ file, until }] : [];
  });
}

/** Why the agent uses another config than the files say: a change waits for its time in the rollout window, or a file is gone. */
export function otherConfigReasons(holder: Holder): readonly string[] {
  const { pending } = stateOf(holder);
  const { hash, appliedAt } = pending ?? {};
  return [
    ...(pending ? [`config ${hash} is pending until ${appliedAt}`] : []),
    ...vanishedFilesOf(holder).map(({ file, until }) => vanishedText(file, until)),
  ];
}

/** What the other end says; undefined if it is no introduction. */
async function introductionOf(socket: Socket): Promise<Introduction | undefined> {
  const read = async (): Promise<string> => {
    let text = '';
    for await (const chunk of socket.setEncoding('utf8')) {
      text += chunk;
      if (text.length > LONGEST_ANSWER) return '';
    }
    return text;
  };
  const text = await Promise.race([read().catch(() => ''), delay(ANSWER_MS, '', { ref: false })]);
  try {
    const { version, flags, state }: Partial<Record<keyof Introduction, unknown>> = JSON.parse(text);
    if (typeof version !== 'string' || !Array.isArray(flags)) return undefined;
    const strings = flags.filter((flag) => typeof flag === 'string');
    return { version, flags: strings, ...(typeof state === 'object' && state !== null && { state }) };
  } catch {
    return undefined;
  }
}
