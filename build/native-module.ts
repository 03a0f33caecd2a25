/** The file with the native module for a CPU, as Node.js names it, in its npm package: for Linux with glibc. */
export function nativeModule(cpu: string): string {
  return `node_modules/@koromix/koffi-linux-${cpu}/linux_${cpu}/koffi.node`;
}
