import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { errorCode } from '../text/error.ts';
import { printable } from '../text/escape.ts';

/** The most bytes that kubelet keeps of a container's termination message (MaxContainerTerminationMessageLength). */
const MAX_BYTES = 4096;

/**
 * Writes the reason of a failure to the file that `kubectl describe pod` shows. Writes only if the file exists, because
 * kubelet makes it. Lines that do not fit are counted.
 *
 * @throws if the file exists but cannot be written
 */
export async function writeTerminationMessage(path: string, lines: readonly string[]): Promise<void> {
  let file: Awaited<ReturnType<typeof open>>;
  try {
    file = await open(path, constants.O_WRONLY | constants.O_TRUNC | constants.O_NONBLOCK);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    throw error;
  }
  try {
    await file.writeFile(fit(lines.map(printable)));
  } finally {
    await file.close();
  }
}

function fit(lines: readonly string[]): string {
  const more = (count: number) => `… and ${count} more, see the log\n`;
  let text = '';
  for (const [index, line] of lines.entries()) {
    const next = `${text}${line}\n`;
    const rest = lines.length - index - 1;
    if (Buffer.byteLength(next) + (rest > 0 ? Buffer.byteLength(more(rest)) : 0) > MAX_BYTES) {
      return `${text}${index === 0 ? `${truncate(line)}\n` : more(rest + 1)}`;
    }
    text = next;
  }
  return text;
}

function truncate(line: string): string {
  return Buffer.from(line)
    .subarray(0, MAX_BYTES - 8)
    .toString('utf8')
    .replace(/\uFFFD$/, '…');
}
