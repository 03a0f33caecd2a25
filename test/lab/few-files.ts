import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';

/**
 * Runs a program with at most 64 open files. It has `openSync`, and `module`, which is imported from the project.
 *
 * @param path of the module, from the root of the project
 */
export function runWithFewFiles(path: string, program: string): ChildProcessByStdio<null, Readable, null> {
  const url = fileURLToPath(new URL(`../../${path}`, import.meta.url));
  const text = `import { openSync } from 'node:fs';
    import * as module from ${JSON.stringify(url)};
    ${program}`;
  const args = ['--nofile=64', process.execPath, '--input-type=module', '-e', text];
  const child = spawn('prlimit', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  child.stdout.setEncoding('utf8');
  return child;
}
