/** The code of an error of the system, such as `ENOENT`; undefined for any other error. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** The system refuses something that the agent needs; the message says what, and what to do. */
export class SystemError extends Error {}
