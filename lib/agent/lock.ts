import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { formatDuration } from '../config/duration.ts';
import type { Logger } from '../log/log.ts';
import { nativeIfThere } from '../netlink/native.ts';
import { errorCode, errorMessage, SystemError } from '../text/error.ts';
import { agentText, findHolder, type Holder, type Introduction, LOCK } from './holder.ts';
import { listenAt, peerOf } from './unix-socket.ts';

/** What a process tells other processes of root, at each answer. */
type Introduce = () => Introduction;

export interface LockOptions {
  readonly introduce: Introduce;
  /** Milliseconds to wait for another agent to end. */
  readonly timeoutMs: number;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** How long the name may be bound without a listener: another agent binds it, and then listens. */
const SETTLE_MS = 1_000;
const PAUSE_MS = 100;

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
 * @throws {SystemError} if another agent keeps the lock; an AbortError, or the reason of the signal, after it
 */
export async function takeLock(
  { introduce, timeoutMs, log, signal }: LockOptions,
  deadline: number,
): Promise<void> {
  for (let isAnnounced = false; ; isAnnounced = true) {
    signal.throwIfAborted();
    const holder = await tryLock(introduce, signal);
    if (holder === undefined) return;
    if (holder.kind === 'unproven') {
      signal.throwIfAborted();
      return log.warn(
        `cannot take the lock against a second agent: ${holder.reason}; the agent goes on without it`,
      );
    }
    const runs = `another agent already runs on this node: ${agentText(holder)}`;
    if (performance.now() >= deadline)
      throw new SystemError(
        `${runs}, and did not end within ${formatDuration(timeoutMs)}; keep one agent on each node; while it runs, use the commands diff, doctor and explain`,
      );
    if (!isAnnounced) log.warn(`${runs}; waiting up to ${formatDuration(timeoutMs)} for it to end`);
    await delay(PAUSE_MS, undefined, { signal });
  }
}

/**
 * Takes the lock if it is free.
 *
 * @returns who has it; undefined if this process has it now
 */
export async function tryLock(
  introduce: Introduce,
  signal: AbortSignal,
): Promise<Exclude<Holder, { readonly kind: 'none' }> | undefined> {
  const start = performance.now();
  for (;;) {
    const failure = await listen(introduce);
    if (failure === undefined) return undefined;
    if (errorCode(failure) !== 'EADDRINUSE') return { kind: 'unproven', reason: errorMessage(failure) };
    const holder = await findHolder();
    if (holder.kind !== 'none') return holder;
    // The holder has just ended, or does not listen yet.
    if (performance.now() - start > SETTLE_MS)
      return { kind: 'unproven', reason: 'a process holds the lock, and does not listen' };
    await delay(PAUSE_MS, undefined, { signal });
  }
}

/** Takes the lock and answers processes of root; returns the error if it cannot. */
async function listen(introduce: Introduce): Promise<unknown> {
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

function createAnswerer(introduce: Introduce): Server {
  const server = createServer((socket) => answer(socket, introduce));
  server.maxConnections = CONNECTIONS;
  server.unref();
  // A failed connection, such as for lack of files, does not end the lock.
  server.on('error', () => {});
  return server;
}

function answer(socket: Socket, introduce: Introduce): void {
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
