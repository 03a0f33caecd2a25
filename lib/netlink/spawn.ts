import { fstatSync, readSync, writeSync } from 'node:fs';
import { constants } from 'node:os';
import { native, nativeIfThere } from './native.ts';

/** spawn.h of glibc: all signals as by default, none blocked, a session of its own. */
const SETSIGDEF_SETSIGMASK_SETSID = 0x04 | 0x08 | 0x80;
/** At least the bytes of glibc's `posix_spawnattr_t`, `posix_spawn_file_actions_t` and `sigset_t`. */
const [ATTRIBUTES_BYTES, ACTIONS_BYTES, SIGNALS_BYTES] = [512, 128, 128];
const MFD_CLOEXEC = 1;
const RLIMIT_FSIZE = 1;
/** The number of pidfd_open(2) on all architectures. */
const PIDFD_OPEN = 434;
const ANY_PID = 1;

/**
 * Starts a program without the copy of this process that Node.js makes for it with fork(2): for a quarter of the CPU. What it
 * reads and prints are files in memory; all other files are closed. If it prints more bytes than `limit`, SIGXFSZ ends it.
 *
 * @returns undefined if it does not start in this way
 */
export function spawn(
  file: string,
  args: readonly string[],
  env: readonly string[],
  input: string,
  limit: number,
) {
  const c = nativeIfThere();
  if (c === undefined) return undefined;
  // In place of the descriptor of its process, for which it is too late to fail. A filter of system calls may refuse it.
  const reserved = c.syscall(PIDFD_OPEN, ANY_PID, 0);
  const streams = ['stdin', 'stdout', 'stderr'].map((name) => c.memfd_create(name, MFD_CLOEXEC));
  const bytes = Buffer.from(input);
  const pid = new Int32Array(1);
  if ([reserved, ...streams].every((one) => one >= 0)) {
    // At a position: the program reads from the beginning.
    writeSync(streams[0] ?? -1, bytes, 0, bytes.length, 0);
    const attributes = Buffer.alloc(ATTRIBUTES_BYTES);
    c.posix_spawnattr_setflags(attributes, SETSIGDEF_SETSIGMASK_SETSID);
    c.posix_spawnattr_setsigdefault(attributes, Buffer.alloc(SIGNALS_BYTES, 0xff));
    const actions = Buffer.alloc(ACTIONS_BYTES);
    for (const [index, stream] of streams.entries())
      c.posix_spawn_file_actions_adddup2(actions, stream, index);
    c.posix_spawnp(pid, file, actions, attributes, [file, ...args, null], [...env, null]);
    c.posix_spawn_file_actions_destroy(actions);
  }
  c.close(reserved);
  const [started = 0] = pid;
  if (started > 0) {
    c.prlimit(started, RLIMIT_FSIZE, BigInt64Array.of(BigInt(limit), BigInt(limit)), null);
    return { pid: started, ended: end(started, streams) };
  }
  for (const stream of streams) c.close(stream);
  return undefined;
}

/** Waits until it has ended. Until then no other process gets its id. */
async function end(pid: number, streams: readonly number[]) {
  const { syscall, poll, waitpid, close } = native();
  const { promise, resolve } = Promise.withResolvers<void>();
  const descriptor = syscall(PIDFD_OPEN, pid, 0);
  const handle = poll(descriptor, () => setImmediate(resolve));
  await promise;
  handle.close();
  const word = new Int32Array(1);
  if (waitpid(pid, word, 0) !== pid) throw new Error('nobody knows how it has ended');
  const [, stdout = '', stderr = ''] = streams.map(textOf);
  for (const one of [descriptor, ...streams]) close(one);
  // As wait(2) describes it.
  const [status = 0] = word;
  const signal = Object.entries(constants.signals).find(([, number]) => number === (status & 0x7f))?.[0];
  return { code: signal === undefined ? status >> 8 : null, signal, stdout, stderr };
}

/** What the file holds. The program has left the position at its end. */
function textOf(file: number): string {
  const bytes = Buffer.allocUnsafe(fstatSync(file).size);
  return bytes.toString('utf8', 0, readSync(file, bytes, 0, bytes.length, 0));
}
