/** The code of a system error, such as `ENOENT`; undefined for any other error. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** What an error says; another value as text. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The system refused an operation; the message says which one and what to do. */
export class SystemError extends Error {}

/** The system lacks files, processes or memory at the moment, as errno(3) has it: trying again may help. */
export class ExhaustedError extends SystemError {
  readonly failure = 'exhausted';

  /** @param message without the remedy */
  constructor(message: string) {
    super(
      `${message}; raise the limits of the pod (files, processes, memory), or find out what uses them up`,
    );
  }
}

/** Whether the error says nothing about what was asked, but that the system lacks something. */
export function isExhausted(error: unknown): boolean {
  return ['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN'].includes(errorCode(error) ?? '');
}

/** A text is not what it should be at one place. The message says why, without the place. */
export class PlacedError extends Error {
  /** Where in the text, in UTF-16 code units. */
  readonly offset: number;
  readonly remedy: string;

  constructor(message: string, offset: number, remedy: string) {
    super(message);
    this.offset = offset;
    this.remedy = remedy;
  }
}
