/** Loads a config directory once, and prints what that took. Usage: load-worker DIRECTORY */
import { loadConfig } from '../../lib/config/load.ts';

const [, , directory = ''] = process.argv;
const options = { enableIPv6: false, cidrLimit: 64, strict: false, noMasqAllReservedRanges: false };
const MB = 1e6;

const heapBefore = process.memoryUsage().heapUsed;
const cpuBefore = process.cpuUsage();
const start = performance.now();
const loaded = await loadConfig(directory, options);
const took = performance.now() - start;
const { user, system } = process.cpuUsage(cpuBefore);
const peak = (process.resourceUsage().maxRSS * 1024) / MB;
if (loaded.config === undefined) throw new Error(`${loaded.problems.length} problems`);
globalThis.gc?.();
const heap = (process.memoryUsage().heapUsed - heapBefore) / MB;
console.log(JSON.stringify({ took, cpu: (user + system) / 1000, peak, heap, kept: loaded.problems.length }));
