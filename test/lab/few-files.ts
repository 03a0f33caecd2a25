import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { type ProcessGroup, startGroup } from './group.ts';

/**
 * Runs a program with at most 64 open files. It has `openSync`, and `module`, which is imported from the project.
 *
 * @param path of the module, from the root of the project
 */
export async function runWithFewFiles(
  path: string,
  program: string,
): Promise<ProcessGroup & { readonly stdout: Readable }> {
  const url = fileURLToPath(new URL(`../../${path}`, import.meta.url));
  const text = `import { openSync } from 'node:fs';
    import * as module from ${JSON.stringify(url)};
    ${program}`;
  const args = ['--nofile=64', process.execPath, '--input-type=module', '-e', text];
  const group = await startGroup('prlimit', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const { stdout } = group.child;
  if (stdout === null) throw new Error('its output is a pipe');
  return { ...group, stdout: stdout.setEncoding('utf8') };
}
