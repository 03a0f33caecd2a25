/** How the process ends. */
export const EXIT = { ok: 0, system: 1, usage: 2, config: 3, different: 4 } as const;

/** What each exit code means, for help and README. */
export const EXIT_MEANING: Readonly<Record<number, string>> = {
  [EXIT.ok]: 'ended by SIGTERM or SIGINT, or the one-shot command succeeded',
  [EXIT.system]: 'the kernel or the system refused',
  [EXIT.usage]: 'wrong usage: unknown flag or command, bad flag value',
  [EXIT.config]: 'the config is invalid, in conflict, or unreadable',
  [EXIT.different]: 'a comparison found a difference, or a look at the node something to do',
};

/** The command line makes no sense; the message says what to write instead. */
export class UsageError extends Error {}
