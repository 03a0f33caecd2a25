import { join } from 'node:path';

/** What the agent uses of the module `koffi.node`: it calls functions of the C library (https://koffi.dev). */
interface Koffi {
  /** Opens a library; `null` is the running program with all that it has loaded. */
  load(path: null): { func(prototype: string): CFunction };
}

/** A function of the C library. A buffer is passed as a pointer to its first byte. */
export type CFunction = (...values: readonly (number | Uint8Array)[]) => number;

/** Defined in the bundle only. */
declare const BUNDLED: true | undefined;

let koffi: Koffi | undefined;

/**
 * A function of the C library by its prototype. The first call loads the module, by its absolute path.
 *
 * @throws {Error} if the module cannot be loaded
 */
export function cFunction(prototype: string): CFunction {
  koffi ??= loadModule();
  return koffi.load(null).func(prototype);
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
