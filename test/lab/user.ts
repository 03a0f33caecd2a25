export const IS_ROOT = process.getuid?.() === 0;

/** The id of the user and the group that own nothing. */
export const NOBODY = 65_534;

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
