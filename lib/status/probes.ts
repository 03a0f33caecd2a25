import type { ProbeCheck } from './health.ts';
import { reply } from './server.ts';

export function probeReply(checks: readonly ProbeCheck[], verbose: boolean) {
  const status = checks.every(({ isGood }) => isGood) ? 200 : 503;
  return reply(status, 'text/plain; charset=utf-8', checksText(checks, verbose));
}

/** The checks as text: the result, before it the reasons of failed checks, or of all if asked for. */
export function checksText(checks: readonly ProbeCheck[], verbose: boolean): string {
  const isGood = checks.every((check) => check.isGood);
  const shown = checks.filter((check) => verbose || !check.isGood);
  const lines = shown.map(({ name, isGood: good, reason }) => `[${good ? '+' : '-'}] ${name}: ${reason}`);
  return `${[...lines, isGood ? 'ok' : 'not ok'].join('\n')}\n`;
}
