import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { LastValid } from '../agent/load.ts';
import { DATA_LINK, dataLink } from '../config/read.ts';
import { printable } from '../text/escape.ts';
import { digest, failure, isThere, type LastValidSummary, requireOwn, SUMMARY } from './state-dir.ts';

const VERSION_PREFIX = '..version-';
const NEW_LINK = '..data_tmp';

/**
 * Keeps the texts of a valid config, all of them or, with an error, those before: also if the process is killed or the
 * machine stops in between.
 *
 * @throws {SystemError}
 */
export async function writeLastValid(
  dir: string,
  node: string,
  { configFiles, since }: LastValid,
): Promise<void> {
  const version = `${VERSION_PREFIX}${randomBytes(6).toString('hex')}`;
  try {
    requireOwn(dir);
    await removeVersions(dir, dataLink(dir));
    await mkdir(join(dir, version), { mode: 0o700 });
    const summary = { format: 1, node, since } as const;
    const checked: LastValidSummary = { ...summary, sha256: digest(configFiles, summary) };
    for (const { name, text } of configFiles) await writeSynced(join(dir, version, name), text);
    await writeSynced(join(dir, version, SUMMARY), `${JSON.stringify(checked)}\n`);
    await syncDirectory(join(dir, version));
    await symlink(version, join(dir, NEW_LINK));
    await rename(join(dir, NEW_LINK), join(dir, DATA_LINK));
    await syncDirectory(dir);
    await removeVersions(dir, version);
  } catch (error) {
    await rm(join(dir, version), { recursive: true, force: true }).catch(() => {});
    throw failure(`cannot write the last valid config to ${printable(dir)}`, error);
  }
}

/**
 * Removes what `writeLastValid` has made.
 *
 * @returns whether there was any
 * @throws {SystemError}
 */
export async function removeLastValid(dir: string): Promise<boolean> {
  try {
    if (!isThere(dir)) return false;
    const hasState = dataLink(dir) !== undefined;
    await rm(join(dir, DATA_LINK), { force: true });
    await removeVersions(dir, undefined);
    return hasState;
  } catch (error) {
    throw failure(`cannot remove the last valid config in ${printable(dir)}`, error);
  }
}

async function writeSynced(path: string, text: string): Promise<void> {
  await using file = await open(path, 'wx', 0o600);
  await file.writeFile(text);
  await file.sync();
}

async function syncDirectory(dir: string): Promise<void> {
  await using handle: FileHandle = await open(dir);
  await handle.sync();
}

/** Removes what an interrupted writing has left, and the version before. */
async function removeVersions(dir: string, kept: string | undefined): Promise<void> {
  for (const name of await readdir(dir))
    if (name === NEW_LINK || (name.startsWith(VERSION_PREFIX) && name !== kept))
      await rm(join(dir, name), { recursive: true, force: true });
}
