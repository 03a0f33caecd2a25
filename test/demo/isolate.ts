import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';

/** Ctrl-C reaches everything in the terminal at once; the others only this process. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs a script in private mount, network and pid namespaces, without root in a private user namespace too.
 *
 * @returns its exit code.
 */
export async function reexecute(script: string, args: readonly string[]): Promise<number> {
  const user = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
  const namespaces = ['--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const child = spawn(
    'setpriv',
    ['--pdeathsig', 'KILL', 'unshare', ...user, ...namespaces, process.execPath, script, ...args],
    { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] },
  );
  let interrupted: (typeof SIGNALS)[number] | undefined;
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      interrupted = signal;
      // The script ends when nobody listens to it any more; `unshare` itself ignores SIGINT and SIGTERM.
      if (child.connected) child.disconnect();
    });
  }
  const [code] = await once(child, 'exit');
  return interrupted === undefined ? (code ?? 1) : 128 + constants.signals[interrupted];
}
