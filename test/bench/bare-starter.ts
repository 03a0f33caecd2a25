/**
 * A Node.js that only starts programs and reads what they print: no agent in Node.js can use less CPU for that. Reads the
 * commands as JSON, starts those of a round at once, and prints the milliseconds of its own CPU for each round.
 * Usage: node bare-starter.ts ROUNDS
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

const PAUSE_MS = 20;
const WARM_UP = 10;

const rounds = Number(process.argv[2]);
const commands: readonly (readonly string[])[] = JSON.parse(await text(process.stdin));

async function start([file = '', ...args]: readonly string[]): Promise<void> {
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  await Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
}

let used = 0;
for (let round = -WARM_UP; round < rounds; round += 1) {
  await delay(PAUSE_MS);
  const before = process.cpuUsage();
  await Promise.all(commands.map(start));
  const { user, system } = process.cpuUsage(before);
  if (round >= 0) used += (user + system) / 1000;
}
console.log(used / rounds);
