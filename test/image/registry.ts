import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Box } from '../lab/box.ts';
import { temporaryDirectory } from '../lab/volume.ts';

export interface Registry extends AsyncDisposable {
  readonly address: string;
}

/** Starts a registry for images, empty, without users and without TLS, on the loopback link of a box. */
export async function startRegistry(box: Box): Promise<Registry> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  const address = '127.0.0.1:5000';
  const config = join(dir, 'config.json');
  const storage = { filesystem: { rootdirectory: join(dir, 'data') } };
  // JSON is YAML too.
  await writeFile(config, JSON.stringify({ version: 0.1, storage, http: { addr: address } }));
  const child = box.spawn('docker-registry', ['serve', config], { stdio: ['ignore', 'ignore', 'pipe'] });
  child.stderr?.resume();
  await once(child, 'spawn');
  stack.defer(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  const owned = stack.move();
  return { address, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
