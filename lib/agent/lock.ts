import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { formatDuration } from '../config/duration.ts';
import type { Logger } from '../log/log.ts';
import { nativeIfThere } from '../netlink/native.ts';
import { errorCode, errorMessage, SystemError } from '../text/error.ts';
import { type Agent, agentText, findHolder, type Holder, type Introduction, LOCK } from './holder.ts';
import type { State } from './state.ts';
import { listenAt, peerOf } from './unix-socket.ts';

/** What taking the lock needs. */
interface Claim {
  /** What to tell other processes of root, at each answer. */
  readonly introduce: () => Introduction;
}

export interface LockOptions extends Claim {
  /** Milliseconds to wait for another agent to end. */
  readonly timeoutMs: number;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** The lock cannot be taken: the agent goes on without it, and tries again. */
  readonly onFailure: () => void;
  /** A later attempt has taken it. */
  readonly onTaken: () => void;
  /** This process goes on without the lock, and now another agent has it. */
  readonly onOtherAgent: (error: SystemError) => void;
}

/** How long the name may be bound without a listener: another agent binds it, and then listens. */
const SETTLE_MS = 1_000;
const PAUSE_MS = 100;

/** The pauses between further attempts of an agent that goes on without the lock. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 300_000;

/** node:net takes 4 ms to load, which the first sync does not wait for. Who connects earlier waits in the kernel. */
const ANSWER_AFTER_MS = 200;

/** Connections at one time, and how long each may last: any user of the node can connect. */
const CONNECTIONS = 16;
const CONNECTION_MS = 1_000;

/**
 * Takes the lock of this network namespace, which lets one agent run and ends with the process. Waits for another agent to end. If
 * anything else is in the way, it warns, and the agent goes on without the lock: nobody but root may stop it.
 *
 * @param deadline until when it waits, in milliseconds of performance.now()
 * @throws {SystemError} if another agent keeps the lock; an AbortError after the signal
 */
export async function takeLock(options: LockOptions, deadline: number): Promise<'taken' | 'unavailable'> {
  const { timeoutMs, log, signal, onFailure } = options;
  for (let isAnnounced = false; ; isAnnounced = true) {
    signal.throwIfAborted();
    const holder = await tryLock(options, signal);
    if (holder === undefined) return 'taken';
    if (holder.kind === 'unproven') {
      signal.throwIfAborted();
      log.warn(`cannot take the lock against a second agent: ${holder.reason}; the agent goes on without it`);
      onFailure();
      void keepTrying(options);
      return 'unavailable';
    }
    const waited = `did not end within ${formatDuration(timeoutMs)}`;
    if (performance.now() >= deadline) throw otherAgent(holder, waited);
    const wait = `waiting up to ${formatDuration(timeoutMs)} for it to end`;
    if (!isAnnounced) log.warn(`another agent already runs on this node: ${agentText(holder)}; ${wait}`);
    await delay(PAUSE_MS, undefined, { signal });
  }
}

/** Tries to get the lock later: the process in the way may end, or another agent may take it. */
async function keepTrying(options: LockOptions): Promise<void> {
  const { log, signal, onFailure, onTaken, onOtherAgent } = options;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    await delay(pause, undefined, { signal, ref: false }).catch(() => {});
    if (signal.aborted) return;
    const holder = await tryLock(options);
    if (holder === undefined) {
      onTaken();
      return log.info('took the lock against a second agent');
    }
    if (holder.kind === 'agent')
      return onOtherAgent(otherAgent(holder, 'started while this one had no lock'));
    onFailure();
  }
}

/** Whether the rules on the node are this process's to remove. */
export async function isAlone(lock: State['lock'], claim: Claim): Promise<boolean> {
  if (lock !== 'unavailable') return lock === 'taken';
  return (await tryLock(claim))?.kind !== 'agent';
}

/**
 * Takes the lock if it is free.
 *
 * @returns who has it; undefined if this process has it now
 */
export async function tryLock(
  claim: Claim,
  signal?: AbortSignal,
): Promise<Exclude<Holder, { readonly kind: 'none' }> | undefined> {
  const start = performance.now();
  for (;;) {
    const failure = await listen(claim);
    if (failure === undefined) return undefined;
    if (errorCode(failure) !== 'EADDRINUSE') return { kind: 'unproven', reason: errorMessage(failure) };
    const holder = await findHolder();
    if (holder.kind !== 'none') return holder;
    // The holder has just ended, or does not listen yet.
    if (performance.now() - start > SETTLE_MS)
      return { kind: 'unproven', reason: 'a process holds the lock, and does not listen' };
    await delay(PAUSE_MS, undefined, { ...(signal && { signal }) });
  }
}

function otherAgent(holder: Agent, what: string): SystemError {
  return new SystemError(
    `another agent already runs on this node: ${agentText(holder)}, and ${what}; keep one agent on each node; beside a running agent use the commands diff, doctor and explain`,
  );
}

/** Takes the lock and answers processes of root; returns the error if it cannot. */
async function listen({ introduce }: Claim): Promise<unknown> {
  try {
    if (nativeIfThere() !== undefined) {
      const fd = listenAt(LOCK);
      // The lock alone must not keep the process alive.
      setTimeout(() => createAnswerer(introduce).listen({ fd }), ANSWER_AFTER_MS).unref();
    } else await once(createAnswerer(introduce).listen(LOCK), 'listening');
    return undefined;
  } catch (error) {
    return error;
  }
}

function createAnswerer(introduce: Claim['introduce']): Server {
  const server = createServer((socket) => answer(socket, introduce));
  server.maxConnections = CONNECTIONS;
  server.unref();
  // A failed connection, such as for lack of files, does not end the lock.
  server.on('error', () => {});
  return server;
}

function answer(socket: Socket, introduce: Claim['introduce']): void {
  socket.on('error', () => {});
  socket.setTimeout(CONNECTION_MS, () => socket.destroy());
  socket.unref();
  try {
    if (peerOf(socket).uid === 0) socket.end(JSON.stringify(introduce()), () => socket.destroy());
    else socket.destroy();
  } catch {
    socket.destroy();
  }
}
