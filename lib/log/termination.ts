import { constants } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { errorCode } from '../text/error.ts';
import { printable } from '../text/escape.ts';

/** The most bytes that kubelet keeps of a container's termination message (MaxContainerTerminationMessageLength). */
const MAX_BYTES = 4096;

const CUT = '…\nthere is more in the log\n';

/**
 * Writes the reason of a failure to the file that `kubectl describe pod` shows. Writes only if the file exists, because
 * kubelet makes it. What does not fit is left out.
 *
 * @throws if the file exists but cannot be written
 */
export async function writeTerminationMessage(path: string, lines: readonly string[]): Promise<void> {
  const text = lines.map((line) => `${printable(line)}\n`).join('');
  // A character that is cut becomes U+FFFD.
  const begin = Buffer.from(text).subarray(0, MAX_BYTES - Buffer.byteLength(CUT));
  const shown = Buffer.byteLength(text) <= MAX_BYTES ? text : begin.toString().replace(/\uFFFD*$/, CUT);
  try {
    await writeFile(path, shown, { flag: constants.O_WRONLY | constants.O_TRUNC | constants.O_NONBLOCK });
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}
