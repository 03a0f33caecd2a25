import { randomBytes } from 'node:crypto';
import type { Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errorCode, SystemError } from '../../../lib/text/error.ts';
import { printable } from '../../../lib/text/escape.ts';

/** What was done to an output file. */
export type OutputChange = 'unchanged' | 'written' | 'removed' | 'absent';

/**
 * Makes the file hold the text, or not exist. Readers meet the old or the new content, whole, even where the process
 * is killed in between: a complete file is renamed over the old one (rename(2)). A new file can be read by everybody,
 * whatever the umask; an old one keeps its mode and, where that is allowed, its owner. What is no regular file is
 * left alone: renaming over a link or over /dev/stdout would put a file in its place.
 *
 * @param text undefined where there is to be no such file
 * @throws {SystemError}
 */
export async function writeOutput(path: string, text: string | undefined): Promise<OutputChange> {
  try {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const change = await writeOnce(path, text);
      if (change !== 'taken') return change;
    }
    throw new Refusal('another program removes its temporary files', 'let one program write it');
  } catch (error) {
    throw outputError(path, text === undefined ? 'remove' : 'write', error);
  }
}

const MAX_ATTEMPTS = 10;

/** `taken` where the temporary file was gone: another writer of the same file has taken it for left over. */
async function writeOnce(path: string, text: string | undefined): Promise<OutputChange | 'taken'> {
  const before = await readRegular(path);
  await removeLeftOver(path);
  if (text === undefined) {
    if (before !== undefined) await rm(path, { force: true });
    return before === undefined ? 'absent' : 'removed';
  }
  const bytes = Buffer.from(text);
  if (before?.bytes.equals(bytes) === true) return 'unchanged';
  return (await replace(path, bytes, before?.stats)) ? 'written' : 'taken';
}

interface RegularFile {
  readonly bytes: Buffer;
  readonly stats: Stats;
}

async function readRegular(path: string): Promise<RegularFile | undefined> {
  const stats = await lstat(path).catch(ignoreMissing);
  if (stats === undefined) return undefined;
  if (stats.isSymbolicLink())
    throw new Refusal('it is a link', 'remove it, or name the file that it leads to with --output-file');
  if (!stats.isFile())
    throw new Refusal(
      `it is ${stats.isDirectory() ? 'a directory' : 'no regular file'}`,
      'name another file with --output-file',
    );
  const bytes = await readFile(path).catch(ignoreMissing);
  return bytes && { bytes, stats };
}

/** Whether it is done; not where somebody has removed the temporary file. */
async function replace(path: string, bytes: Buffer, before: Stats | undefined): Promise<boolean> {
  const temporary = join(dirname(path), temporaryName(path, randomBytes(6).toString('hex')));
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(bytes);
      await setAccess(file, before);
      // Else a crash of the machine may leave the name without the content.
      await file.sync();
    } finally {
      await file.close();
    }
    return await rename(temporary, path).then(
      () => true,
      async (error: unknown) => {
        if (errorCode(error) !== 'ENOENT' || !(await isGone(temporary))) throw error;
        return false;
      },
    );
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {});
    throw error;
  }
}

/** The file may be there for programs of another user. One that an operator has closed to them stays closed. */
async function setAccess(file: FileHandle, before: Stats | undefined): Promise<void> {
  const own = await file.stat();
  // Only root may give a file away.
  if (before !== undefined && (before.uid !== own.uid || before.gid !== own.gid))
    await file.chown(before.uid, before.gid).catch(() => {});
  await file.chmod(before === undefined ? 0o644 : before.mode & 0o777);
}

/** What a process left that was killed while it wrote. It does no harm where it cannot be removed. */
async function removeLeftOver(path: string): Promise<void> {
  const dir = dirname(path);
  const names = await readdir(dir).catch(() => []);
  for (const name of names) {
    const [, random] = /\.tmp-([0-9a-f]{12})$/.exec(name) ?? [];
    if (random !== undefined && name === temporaryName(path, random))
      await rm(join(dir, name), { force: true }).catch(() => {});
  }
}

/** Hidden, so that no reader of the directory takes it for a source. */
function temporaryName(path: string, random: string): string {
  return `.${basename(path)}.tmp-${random}`;
}

/** What stands at the path of the output is not to be touched. */
class Refusal extends Error {
  readonly remedy: string;

  constructor(message: string, remedy: string) {
    super(message);
    this.remedy = remedy;
  }
}

function outputError(path: string, verb: 'write' | 'remove', error: unknown): SystemError {
  const dir = printable(dirname(path));
  // "EACCES: permission denied, open '/out/.file.tmp-…'": the temporary file says nothing to an operator.
  const reason = error instanceof Error ? error.message.replace(/, [a-z]+(?: '.*)?$/s, '') : String(error);
  const remedy = error instanceof Refusal ? error.remedy : remedyFor(errorCode(error), dir);
  return new SystemError(`cannot ${verb} ${printable(path)}: ${reason}; ${remedy}`);
}

function remedyFor(code: string | undefined, dir: string): string {
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return `make the directory ${dir}, or mount a volume there`;
    case 'EACCES':
    case 'EPERM':
      return `give this user the right to make and rename files in ${dir}`;
    case 'EROFS':
      return `mount ${dir} writable`;
    case 'ENOSPC':
    case 'EDQUOT':
      return `free space in ${dir}`;
    case 'EBUSY':
    case 'EXDEV':
      return `mount the directory ${dir} instead of the single file, which cannot be replaced while it is a mount point`;
    default:
      return 'name another file with --output-file';
  }
}

async function isGone(path: string): Promise<boolean> {
  return (await lstat(path).catch(ignoreMissing)) === undefined;
}

function ignoreMissing(error: unknown): undefined {
  if (errorCode(error) !== 'ENOENT') throw error;
}
