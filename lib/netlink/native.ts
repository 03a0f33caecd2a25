import { join } from 'node:path';
import { errorMessage } from '../text/error.ts';
import { NetlinkError } from './error.ts';

/** What the agent uses of the module `koffi.node`: it calls functions of the C library (https://koffi.dev). */
interface Koffi {
  /** Opens a library; `null` is the running program with all that it has loaded. */
  load(path: null): { func(prototype: string): CFunction };
  /** errno(3) after the last call in this thread. */
  errno(): number;
  /** Waits in Node's loop until a descriptor is readable; it tells so again and again until it is closed. */
  readonly node: { poll(descriptor: number, callback: () => void): { close(): void } };
}

/** A function of the C library, such as `int close(int)`. An array is passed as a pointer to its first byte. */
interface CFunction {
  (...values: readonly CValue[]): number;
  /** Calls it in another thread; the last value is a callback. The arrays must be referenced until it is called. */
  async(...values: readonly (CValue | ((error: Error | null, result: number) => void))[]): void;
}

type CValue = number | Uint8Array | Int32Array | null;

/** Defined in the bundle only. */
declare const BUNDLED: true | undefined;

let loaded: ReturnType<typeof load> | undefined;

/** The native module, and functions of the C library. The first call loads it, or throws NetlinkError. */
export function native(): ReturnType<typeof load> {
  loaded ??= load();
  return loaded;
}

/** As `native`; undefined if the module cannot be loaded. */
export function nativeIfThere(): ReturnType<typeof load> | undefined {
  try {
    return native();
  } catch {
    return undefined;
  }
}

/** Ends the process at once, if the module is loaded: its destructors flush standard output, and hang if that fails. */
export function endAtOnce(code: number): void {
  loaded?.func('void _exit(int)')(code);
}

function load() {
  const module = { exports: {} };
  try {
    process.dlopen(module, modulePath());
  } catch (error) {
    const message = `cannot load the native module: ${errorMessage(error)}`;
    // The dynamic loader gives no errno; its words are those of strerror(3).
    if (/Too many open files/.test(message)) throw new NetlinkError('failed', message, 'EMFILE');
    throw new NetlinkError('unsupported', message);
  }
  const koffi = module.exports as Koffi;
  const library = koffi.load(null);
  const func = (prototype: string) => library.func(prototype);
  return {
    errno: koffi.errno,
    poll: koffi.node.poll,
    /** Any function, for who uses one that sockets of netlink do not need. */
    func,
    socket: func('int socket(int, int, int)'),
    bind: func('int bind(int, void *, int)'),
    getsockname: func('int getsockname(int, void *, void *)'),
    setsockopt: func('int setsockopt(int, int, int, void *, int)'),
    send: func('int64_t send(int, void *, size_t, int)'),
    recvfrom: func('int64_t recvfrom(int, void *, size_t, int, void *, void *)'),
    close: func('int close(int)'),
  };
}

/** The module is next to the bundle. Without a bundle it is in its npm package, which has no install script. */
function modulePath(): string {
  if (typeof BUNDLED !== 'undefined') return join(import.meta.dirname, 'koffi.node');
  const path = `@koromix/koffi-linux-${process.arch}/linux_${process.arch}/koffi.node`;
  return join(import.meta.dirname, '../../node_modules', path);
}
