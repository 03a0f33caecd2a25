import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { Box } from './box.ts';

const PATIENCE_MS = 60_000;

/** What the kernel announces about its rules. */
export interface Monitor {
  /** When a rule with this text was first announced, as `performance.now()` tells; waits for it. */
  announced(text: string): Promise<number>;
}

/**
 * Listens to the kernel, which announces each change as it commits it. Reading the rules over and over
 * instead would slow down what is to be timed: a reader and a writer of rules take turns.
 */
export function monitorRules(box: Box): Monitor {
  const child = box.spawn('nft', ['monitor', 'rules'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const heard: { readonly line: string; readonly at: number }[] = [];
  if (child.stdout !== null) {
    createInterface(child.stdout).on('line', (line) => heard.push({ line, at: performance.now() }));
  }
  return {
    async announced(text) {
      for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; await delay(5)) {
        const found = heard.find(({ line }) => line.includes(text));
        if (found !== undefined) return found.at;
      }
      throw new Error(`no rule with ${text} came into the kernel within ${PATIENCE_MS / 1000} seconds`);
    },
  };
}
