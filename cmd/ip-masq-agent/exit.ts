export const EXIT = { ok: 0, system: 1, usage: 2, config: 3, different: 4 } as const;

export const EXIT_MEANING: Readonly<Record<number, string>> = {
  [EXIT.ok]: 'SIGTERM or SIGINT stopped the agent, --once has synced, or the command succeeded',
  [EXIT.system]:
    'the kernel or the system refused an operation, another agent runs in this network namespace, a signal interrupted --once, or fleet could not ask a node',
  [EXIT.usage]: 'wrong usage: unknown flag or command, bad flag value',
  [EXIT.config]: 'the config is invalid, in conflict, or unreadable',
  [EXIT.different]:
    'diff, render --diff-to, explain --live, doctor, status or check --expect found something',
};

/** The command line is wrong; the message says what to write instead. */
export class UsageError extends Error {}
