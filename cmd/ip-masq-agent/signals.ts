/**
 * The signals that end the agent. This file is imported before all others: without a handler, the kernel ends an
 * ordinary process at once, and does not end the first process of a container at all (pid_namespaces(7)).
 */
const stop = new AbortController();

for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, () => stop.abort(name));
// Without a handler, SIGHUP ends the process. Before the first sync there is nothing to read again.
process.on('SIGHUP', () => {});
// Without a handler, Node.js opens its debugger if a program that sets NODE_OPTIONS has replaced --disable-sigusr1.
process.on('SIGUSR1', () => {});

/** Aborted by SIGTERM and SIGINT; the reason is the signal's name. */
export const stopSignal: AbortSignal = stop.signal;
