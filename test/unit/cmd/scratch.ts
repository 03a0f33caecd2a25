import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'node:test';
import { type TemporaryDirectory, temporaryDirectory } from '../../lab/volume.ts';

let scratch: TemporaryDirectory;

/** The directory of an output file; each test of a file that imports this has one of its own. */
export let dir: string;

/** The output file, which is not there yet. */
export let out: string;

beforeEach(async () => {
  scratch = await temporaryDirectory();
  dir = join(scratch.path, 'dir');
  out = join(dir, 'out');
  await mkdir(dir, { mode: 0o755 });
});

afterEach(async () => {
  // A test may have closed it.
  await chmod(dir, 0o755).catch(() => {});
  await scratch[Symbol.asyncDispose]();
});
