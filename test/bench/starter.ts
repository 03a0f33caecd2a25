/**
 * Only starts programs and reads what they print: no agent in Node.js can use less CPU for that. Starts the commands on
 * standard input, a list in JSON, at once, so many rounds. Prints the milliseconds of its own CPU for each round.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

const WARM_UP = 10;
const PAUSE_MS = 20;

const rounds = Number(process.argv[2]);
const commands: readonly (readonly string[])[] = JSON.parse(await text(process.stdin));
let used = 0;
for (let round = -WARM_UP; round < rounds; round += 1) {
  await delay(PAUSE_MS);
  const before = process.cpuUsage();
  const running = commands.map(async ([file = '', ...args]) => {
    const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    await Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
  });
  await Promise.all(running);
  const { user, system } = process.cpuUsage(before);
  if (round >= 0) used += (user + system) / 1000;
}
console.log(used / rounds);
