// Owns a cluster: `supervisor.ts OPTIONS [held]`, the options as JSON. It prints one line of JSON, a `Report`, and then takes the
// cluster down when it is told to (SIGTERM), or, if `held`, when its input ends: its caller has died, however it died.
import { mkdir } from 'node:fs/promises';
import { bringUp } from './bring-up.ts';
import { tails } from './daemon.ts';
import { removeLeftovers } from './leftovers.ts';
import { type ClusterOptions, placesOf, type Report } from './options.ts';
import { claim } from './owner.ts';

const [, , json = '', held] = process.argv;
const options: ClusterOptions = JSON.parse(json);
const places = placesOf(options.directory);

const { promise: told, resolve: tell } = Promise.withResolvers<void>();
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => tell());
if (held === 'held') process.stdin.on('end', tell).on('error', tell).resume();
// Whoever reads the line may be gone.
process.stdout.on('error', () => {});

try {
  await supervise();
} catch (error) {
  report({ failure: error instanceof Error ? error.message : String(error) });
}
// What is still under way is in vain: its nodes are gone.
process.exit();

async function supervise(): Promise<void> {
  await mkdir(options.directory, { recursive: true });
  await claim(places.owner);
  await removeLeftovers(options.directory);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => removeLeftovers(options.directory));
  const interrupted = told.then(() =>
    Promise.reject(new Error('the cluster was told to end before it was up')),
  );
  try {
    await bringUp(options, stack, interrupted);
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${await tails(places.logs)}`);
  }
  report({});
  await told;
}

function report(line: Report): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
