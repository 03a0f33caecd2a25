import type { ProbeCheck } from './health.ts';
import { plain } from './server.ts';

/** The reasons of failed checks, or of all if asked for, and then the result. */
export function probeReply(checks: readonly ProbeCheck[], verbose: boolean) {
  const areGood = checks.every(({ isGood }) => isGood);
  const shown = checks.filter(({ isGood }) => verbose || !isGood);
  const lines = shown.map(({ name, isGood, reason }) => `[${isGood ? '+' : '-'}] ${name}: ${reason}`);
  return plain(areGood ? 200 : 503, [...lines, areGood ? 'ok' : 'not ok'].join('\n'));
}
