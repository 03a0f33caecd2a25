import { join } from 'node:path';

/** What the agent uses of the module `koffi.node`: it calls functions of the C library (https://koffi.dev). */
interface Koffi {
  /** Opens a library; `null` is the running program with all that it has loaded. */
  load(path: null): { func(prototype: string): CFunction };
  /** errno(3) after the last call in this thread. */
  errno(): number;
  /** The address of the first byte. It stays the same as long as the buffer is referenced. */
  address(buffer: Uint8Array): bigint;
  readonly node: { poll(descriptor: number, callback: () => void): PollHandle };
}

/** A function of the C library. A buffer is passed as a pointer to its first byte. */
export interface CFunction {
  (...values: readonly CValue[]): number;
  /** Calls it in another thread; the last value is a callback. The buffers must be referenced until it is called. */
  async(...values: readonly (CValue | ((error: Error | null, result: number) => void))[]): void;
}

type CValue = number | Uint8Array | null;

/** Waits in Node's loop until a descriptor is readable; it tells so again and again until it is closed. */
interface PollHandle {
  close(): void;
}

/** Defined in the bundle only. */
declare const BUNDLED: true | undefined;

let koffi: Koffi | undefined;

/**
 * The native module. The first call loads it, by its absolute path.
 *
 * @throws {Error} if the module cannot be loaded
 */
export function native(): Koffi {
  koffi ??= loadModule();
  return koffi;
}

/**
 * A function of the C library by its prototype.
 *
 * @throws {Error} if the module cannot be loaded
 */
export function cFunction(prototype: string): CFunction {
  return native().load(null).func(prototype);
}

function loadModule(): Koffi {
  const module = { exports: {} };
  process.dlopen(module, modulePath());
  return module.exports as Koffi;
}

/** The module is next to the bundle. Without a bundle it is in its npm package, which has no install script. */
function modulePath(): string {
  if (typeof BUNDLED !== 'undefined') return join(import.meta.dirname, 'koffi.node');
  const { arch } = process;
  return join(
    import.meta.dirname,
    `../../node_modules/@koromix/koffi-linux-${arch}/linux_${arch}/koffi.node`,
  );
}
