import { randomBytes } from 'node:crypto';
import type { Stats } from 'node:fs';
import { lstat, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errorCode, errorMessage, SystemError } from '../../../lib/text/error.ts';
import { printable } from '../../../lib/text/escape.ts';

type OutputChange = 'unchanged' | 'written' | 'removed' | 'absent';

/**
 * Writes the text to the file, or removes the file. Readers see the old or the new content as a whole, even if the
 * process is killed in between: a complete file is renamed over the old one (rename(2)). A new file is readable for all
 * users, because programs of other users read it. An old one keeps its mode and, if this process may set it, its owner.
 *
 * @param text undefined if there must be no such file
 * @throws {SystemError}
 */
export async function writeOutput(path: string, text: string | undefined): Promise<OutputChange> {
  try {
    const before = await lstat(path).catch(ignoreMissing);
    if (before !== undefined) requireRegular(path, before);
    await removeTemporaries(path);
    if (text === undefined) {
      await rm(path, { force: true });
      return before === undefined ? 'absent' : 'removed';
    }
    const bytes = Buffer.from(text);
    // Another program may remove it at any time.
    const old = before && (await readFile(path).catch(ignoreMissing));
    if (old !== undefined && bytes.equals(old)) return 'unchanged';
    await replace(path, bytes, before);
    return 'written';
  } catch (error) {
    if (error instanceof SystemError) throw error;
    // "EACCES: permission denied, open '/out/.file.tmp-…'": the temporary file says nothing to an operator.
    const reason = errorMessage(error).replace(/, [a-z]+(?: '.*)?$/s, '');
    const remedy = remedyFor(printable(dirname(path)), errorCode(error));
    throw cannot(text === undefined ? 'remove' : 'write', path, reason, remedy);
  }
}

async function replace(path: string, bytes: Buffer, before: Stats | undefined): Promise<void> {
  const temporary = join(dirname(path), temporaryName(path, randomBytes(6).toString('hex')));
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(bytes);
      // Only root may change the owner of a file.
      if (before !== undefined) await file.chown(before.uid, before.gid).catch(() => {});
      await file.chmod(before === undefined ? 0o644 : before.mode & 0o777);
      // Without this, a crash of the machine may leave the name without the content.
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {});
    throw error;
  }
}

/** The name of a temporary file. It is hidden, so that it is not a config file for a reader of the directory. */
function temporaryName(path: string, random: string): string {
  return `.${basename(path)}.tmp-${random}`;
}

/** Removes what a killed process left. If it cannot be removed, it does no harm. */
async function removeTemporaries(path: string): Promise<void> {
  const dir = dirname(path);
  for (const name of await readdir(dir).catch(() => [])) {
    const [, random] = /\.tmp-([0-9a-f]{12})$/.exec(name) ?? [];
    if (random !== undefined && name === temporaryName(path, random))
      await rm(join(dir, name), { force: true }).catch(() => {});
  }
}

/** Refuses a link or a device such as /dev/stdout, which renaming would replace. */
function requireRegular(path: string, stats: Stats): void {
  if (stats.isFile()) return;
  if (stats.isSymbolicLink())
    throw cannot(
      'write',
      path,
      'it is a link',
      'remove it, or set --output-file to the file that it leads to',
    );
  const what = stats.isDirectory() ? 'it is a directory' : 'it is not a regular file';
  throw cannot('write', path, what, 'give --output-file another file');
}

function cannot(verb: 'write' | 'remove', path: string, reason: string, remedy: string): SystemError {
  return new SystemError(`cannot ${verb} ${printable(path)}: ${reason}; ${remedy}`);
}

/** What to do about system errors, by their codes. DIR stands for the directory of the file. */
const REMEDIES: readonly (readonly [codes: readonly string[], remedy: string])[] = [
  [
    ['ENOENT', 'ENOTDIR'],
    'make the directory DIR, or mount a volume there; if it is there, let one program write the file',
  ],
  [['EACCES', 'EPERM'], 'give this user the right to create and rename files in DIR'],
  [['EROFS'], 'mount DIR writable'],
  [['ENOSPC', 'EDQUOT'], 'free space in DIR'],
  [
    ['EBUSY', 'EXDEV'],
    'mount the directory DIR instead of the single file, which cannot be replaced while it is a mount point',
  ],
];

function remedyFor(dir: string, code = ''): string {
  const [, remedy = 'give --output-file another file'] =
    REMEDIES.find(([codes]) => codes.includes(code)) ?? [];
  return remedy.replace('DIR', () => dir);
}

function ignoreMissing(error: unknown): undefined {
  if (errorCode(error) !== 'ENOENT') throw error;
}
