import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { type Command, type Environment, text } from './run.ts';

/**
 * Starts a command that enters new namespaces and then runs `cat`: it holds them open until it is killed,
 * or until this process dies, however it dies, because then the input of `cat` ends.
 *
 * @returns the process id, once the namespaces are there.
 */
export async function hold({ file, args }: Command, env: Environment): Promise<number> {
  const child = spawn(file, args, { env, stdio: 'pipe' });
  const stderr: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
  child.stdin.on('error', () => {});
  await new Promise<void>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', () => reject(new Error(`no namespaces to be had: ${text(stderr).trim()}`)));
    // Whatever comes back comes from `cat`, so all that stands before it in the command is done.
    child.stdout.once('data', () => resolve());
    child.stdin.write('\n');
  });
  // A test that forgets a box shall still come to its end.
  child.unref();
  for (const stream of child.stdio) if (stream instanceof Socket) stream.unref();
  if (child.pid === undefined) throw new Error('a running process has an id');
  return child.pid;
}
