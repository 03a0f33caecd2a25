import { isUtf8 } from 'node:buffer';
import type { Problem } from './problem.ts';
import { Locator, type Source } from './source.ts';

/** The bytes of a file as text; a problem where they are not UTF-8 text. A byte order mark is dropped. */
export function decodeSource(name: string, bytes: Buffer): Source | Problem {
  if (isUtf16(bytes)) {
    return encodingProblem({ name, text: '' }, 0, 'is UTF-16, not UTF-8', 'save it as UTF-8');
  }
  if (!isUtf8(bytes)) {
    const valid = bytes.subarray(0, validLength(bytes)).toString('utf8');
    const remedy = 'save the file as UTF-8';
    return encodingProblem({ name, text: valid }, valid.length, 'has a byte that is not UTF-8', remedy);
  }
  const text = bytes.toString('utf8').replace(/^\uFEFF/, '');
  const nul = text.indexOf('\0');
  if (nul !== -1)
    return encodingProblem({ name, text }, nul, 'has a NUL byte', 'save the file as plain text');
  return { name, text };
}

function encodingProblem(source: Source, offset: number, message: string, remedy: string): Problem {
  return { severity: 'error', kind: 'encoding', message, remedy, at: new Locator(source).origin(offset) };
}

function isUtf16(bytes: Buffer): boolean {
  return (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
}

/** How many bytes at the start are valid UTF-8 and end with a whole character. */
function validLength(bytes: Buffer): number {
  let low = 0;
  let high = bytes.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (isUtf8(bytes.subarray(0, wholeCharacters(bytes, middle)))) low = middle;
    else high = middle - 1;
  }
  return wholeCharacters(bytes, low);
}

/** The length, or less, so that no character is cut: continuation bytes are 10xxxxxx (RFC 3629). */
function wholeCharacters(bytes: Buffer, length: number): number {
  let start = length;
  while (start > 0 && start > length - 4 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start -= 1;
  return start;
}
