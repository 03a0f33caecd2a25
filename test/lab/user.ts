import { statSync } from 'node:fs';
import { dirname } from 'node:path';

export const IS_ROOT = process.getuid?.() === 0;

/** The id of the user and the group that own nothing. */
export const NOBODY = 65_534;

/** Throws if nobody cannot enter a directory on the way to Node.js, which tests run as nobody. */
export function requireOpenPath(): void {
  for (let path = dirname(process.execPath); path !== '/'; path = dirname(path))
    if ((statSync(path).mode & 0o001) === 0)
      throw new Error(`tests run Node.js as nobody, who may not enter ${path}: chmod o+x ${path}`);
}

/** Does something as a user for whom the modes of files count: not as root. */
export async function asNobody<Result>(work: () => Promise<Result>): Promise<Result> {
  if (!IS_ROOT) return await work();
  process.seteuid?.(NOBODY);
  try {
    return await work();
  } finally {
    process.seteuid?.(0);
  }
}
