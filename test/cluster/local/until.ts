import { setTimeout as delay } from 'node:timers/promises';

const PATIENCE_MS = 120_000;
const PAUSE_MS = 50;

/** Asks until there is an answer. The limit is no measure of speed: it ends a wait that is in vain. */
export async function until<Answer>(
  what: string,
  ask: () => Promise<Answer | undefined>,
  patienceMs = PATIENCE_MS,
): Promise<Answer> {
  for (const deadline = Date.now() + patienceMs; ; await delay(PAUSE_MS)) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}, ${patienceMs / 1000} s`);
  }
}
