import { type ExecFileException, execFile } from 'node:child_process';
import { SystemError } from '../text/error.ts';

export interface Kubectl {
  /** Flags before each command, such as `--namespace=kube-system`. */
  readonly flags: readonly string[];
  /** Milliseconds that one run may take. */
  readonly timeoutMs: number;
  /** Ends all runs. */
  readonly signal: AbortSignal;
}

export interface Run {
  /** Why it was killed; undefined if it ended by itself. */
  readonly killed: 'time' | 'size' | 'interrupt' | undefined;
  /** Undefined if a signal ended it. */
  readonly code: number | undefined;
  readonly stdout: string;
  /** The lines of standard error; kubectl says last why it fails. */
  readonly told: readonly string[];
}

/**
 * Runs kubectl to its end, without a shell.
 *
 * @param most bytes of each output; more ends it
 * @throws {SystemError} if there is no kubectl
 */
export async function runKubectl(
  kubectl: Kubectl,
  args: readonly string[],
  most: number,
  input = '',
): Promise<Run> {
  const { flags, timeoutMs: timeout, signal } = kubectl;
  const options = { timeout, signal, killSignal: 'SIGKILL', maxBuffer: most } as const;
  return new Promise((resolve, reject) => {
    const child = execFile('kubectl', [...flags, ...args], options, (error, stdout, stderr) => {
      if (error?.code === 'ENOENT' || error?.code === 'EACCES')
        reject(new SystemError(`cannot run kubectl (${error.code}); install it, or put it on the PATH`));
      else
        resolve({ ...endOf(error), stdout, told: stderr.split('\n').filter((line) => line.trim() !== '') });
    });
    // It may end without reading all of it.
    child.stdin?.on('error', () => {}).end(input);
  });
}

function endOf(error: ExecFileException | null): Pick<Run, 'killed' | 'code'> {
  if (error === null) return { killed: undefined, code: 0 };
  if (error.name === 'AbortError') return { killed: 'interrupt', code: undefined };
  if (String(error.code) === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return { killed: 'size', code: undefined };
  if (error.killed) return { killed: 'time', code: undefined };
  return { killed: undefined, code: typeof error.code === 'number' ? error.code : undefined };
}
