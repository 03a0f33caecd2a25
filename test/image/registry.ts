import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Box } from '../lab/box.ts';
import { temporaryDirectory } from '../lab/volume.ts';

export interface Registry extends AsyncDisposable {
  readonly address: string;
}

/**
 * Starts a registry for images, without users and without TLS, on the loopback link of a network namespace.
 *
 * @param directory what it holds, and what is pushed to it
 */
export async function startRegistry({ spawn }: Pick<Box, 'spawn'>, directory: string): Promise<Registry> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const address = '127.0.0.1:5000';
  const config = join(dir, 'config.json');
  const storage = { filesystem: { rootdirectory: directory } };
  // JSON is YAML too.
  await writeFile(config, JSON.stringify({ version: 0.1, storage, http: { addr: address } }));
  const child = spawn('docker-registry', ['serve', config], { stdio: ['ignore', 'ignore', 'pipe'] });
  await once(child, 'spawn');
  stack.defer(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  await new Promise<void>((resolve, reject) => {
    let log = '';
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      log += chunk;
      if (log.includes('listening on')) resolve();
    });
    child.once('exit', () => reject(new Error(`the registry ended: ${log}`)));
  });
  const owned = stack.move();
  return { address, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
