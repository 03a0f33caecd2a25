import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'node:test';
import { type TemporaryDirectory, temporaryDirectory } from '../../lab/volume.ts';

let scratch: TemporaryDirectory;

/** The directory of an output file. */
export let dir: string;

/** The output file, which is not there yet. */
export let out: string;

/** Gives each test of the suite that calls it a directory of its own. */
export function useScratch(): void {
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
}
