import type { ProbeCheck } from './health.ts';
import { type Routes, reply } from './server.ts';

export function probeRoutes(readiness: () => readonly ProbeCheck[]) {
  return {
    // An answer is enough: /readyz tells of a sync that hangs.
    '/healthz': ({ query }) =>
      probeReply([{ name: 'loop', isGood: true, reason: 'the event loop answers' }], query.has('verbose')),
    '/readyz': ({ query }) => probeReply(readiness(), query.has('verbose')),
  } satisfies Routes;
}

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
