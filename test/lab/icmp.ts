import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Box } from './box.ts';
import { succeed } from './run.ts';

/** Pings from one box to another. */
export interface Pings extends AsyncDisposable {
  /** Sends each destination an ICMP echo request; the address that each had for its source on arrival. */
  sourcesSeen(destinations: readonly string[]): Promise<readonly string[]>;
}

const SCRIPT = fileURLToPath(new URL('icmp.pl', import.meta.url));
const PATIENCE_MS = 250;
const ATTEMPTS = 20;

/** Starts listening in the box that the pings go to. */
export async function startPings(from: Box, to: Box): Promise<Pings> {
  const listener = to.spawn('perl', [SCRIPT, 'listen'], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (listener.stdout === null) throw new Error('the listener has an output');
  const lines = createInterface(listener.stdout);
  await once(lines, 'line'); // it says that it listens
  const seen = new Map<number, string>();
  lines.on('line', (line) => {
    const [number = '', source = ''] = line.split(' ');
    seen.set(Number(number), source);
  });
  let sent = 0;
  return {
    async sourcesSeen(destinations) {
      const pings = destinations.map((destination) => {
        sent += 1;
        return { number: sent, destination };
      });
      const missing = () => pings.filter(({ number }) => !seen.has(number));
      for (let attempt = 0; attempt < ATTEMPTS && missing().length > 0; attempt += 1) {
        const input = missing()
          .map(({ number, destination }) => `${number} ${destination}\n`)
          .join('');
        await succeed(from.run('perl', [SCRIPT, 'send'], { input }));
        const deadline = performance.now() + PATIENCE_MS;
        while (missing().length > 0 && performance.now() < deadline) await delay(2);
      }
      return pings.map(({ number, destination }) => {
        const source = seen.get(number);
        if (source === undefined) throw new Error(`no ping to ${destination} arrives`);
        return source;
      });
    },
    async [Symbol.asyncDispose]() {
      listener.kill('SIGKILL');
      if (listener.exitCode === null && listener.signalCode === null) await once(listener, 'exit');
    },
  };
}
