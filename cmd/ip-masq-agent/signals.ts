/**
 * The signals that end the agent. Imported before everything else: until there is a handler, the kernel ends an
 * ordinary process at once, and a container's first process not at all (pid_namespaces(7)).
 */
const stop = new AbortController();

for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, () => stop.abort(name));
// Without a handler a hangup ends the process; the agent reads the sources at its start anyway.
process.on('SIGHUP', () => {});

/** Aborted by SIGTERM and SIGINT; the reason is the signal's name. */
export const stopSignal: AbortSignal = stop.signal;
