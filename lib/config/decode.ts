import { isUtf8 } from 'node:buffer';
import type { Problem } from './problem.ts';
import { Locator, type Source } from './source.ts';

/** The bytes of a file as text; a problem where they are not UTF-8 text. A byte order mark is dropped. */
export function decodeSource(name: string, bytes: Buffer): Source | Problem {
  if (isUtf16(bytes)) {
    return encodingProblem({ name, text: '' }, 0, 'is UTF-16, not UTF-8', 'save it as UTF-8');
  }
  if (!isUtf8(bytes)) {
    const valid = withoutMark(validBeginning(bytes));
    const remedy = 'save the file as UTF-8';
    return encodingProblem({ name, text: valid }, valid.length, 'has a byte that is not UTF-8', remedy);
  }
  const text = withoutMark(bytes.toString('utf8'));
  const nul = text.indexOf('\0');
  if (nul !== -1)
    return encodingProblem({ name, text }, nul, 'has a NUL byte', 'save the file as plain text');
  return { name, text };
}

function encodingProblem(source: Source, offset: number, message: string, remedy: string): Problem {
  return { severity: 'error', kind: 'encoding', message, remedy, at: new Locator(source).origin(offset) };
}

function withoutMark(text: string): string {
  return text.replace(/^\uFEFF/, '');
}

function isUtf16(bytes: Buffer): boolean {
  return (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
}

/** The longest beginning of the bytes that is UTF-8. */
function validBeginning(bytes: Buffer): string {
  // Decoding puts U+FFFD in the place of what is invalid, so the two differ from there on, or from within U+FFFD.
  const decoded = Buffer.from(bytes.toString('utf8'));
  let end = 0;
  while (decoded[end] === bytes[end]) end += 1;
  while (((decoded[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return decoded.toString('utf8', 0, end);
}
