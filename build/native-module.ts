/** The npm package with the native module for a CPU, as Node.js names it: for Linux with glibc. */
export function nativePackage(cpu: string): string {
  return `node_modules/@koromix/koffi-linux-${cpu}`;
}

/** The file of the native module in its package. */
export function nativeModule(cpu: string): string {
  return `${nativePackage(cpu)}/linux_${cpu}/koffi.node`;
}
