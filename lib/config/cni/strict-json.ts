import { createScanner, type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import { CniError } from './cni-error.ts';

/** A value of the text, and where it is. */
export type { Node } from 'jsonc-parser';

/** A CNI config has 8 levels and a few kilobytes; more is a mistake or an attack. */
const MAX_DEPTH = 64;
const MAX_LENGTH = 256 * 1024;

const START = { offset: 0 };
const GIVE = 'give the CNI config of a Windows node';

/**
 * The one JSON value of a text, which may begin with a byte order mark.
 *
 * @throws {CniError} for all that Go's encoding/json refuses, comments and trailing commas among it
 */
export function parseStrict(text: string): Node {
  if (text.length > MAX_LENGTH) throw new CniError('is longer than 256 KiB', START, GIVE);
  // PowerShell 5 writes a byte order mark. A space in its place keeps the offsets.
  const json = text.replace(/^\ufeff/, ' ');
  requireShallow(json);
  const errors: ParseError[] = [];
  const root = parseTree(json, errors, { disallowComments: true, allowEmptyContent: true });
  const [error] = errors;
  if (error !== undefined) throw syntaxError(json, error);
  if (root === undefined) throw new CniError('is empty', START, GIVE);
  return root;
}

/**
 * The parser recurses; what is too deep must not reach it. It goes on behind an error, and a bracket of the
 * wrong kind closes nothing then.
 */
function requireShallow(json: string): void {
  const scanner = createScanner(json, true);
  const closing: string[] = [];
  for (scanner.scan(); scanner.getTokenOffset() < json.length; scanner.scan()) {
    const offset = scanner.getTokenOffset();
    const char = json.charAt(offset);
    if (char === '{' || char === '[') closing.push(char === '{' ? '}' : ']');
    if (char === closing.at(-1)) closing.pop();
    if (closing.length <= MAX_DEPTH) continue;
    throw new CniError(`is nested more than ${MAX_DEPTH} levels deep`, { offset }, 'remove the nesting');
  }
}

function syntaxError(json: string, { error, offset }: ParseError): CniError {
  const name = printParseErrorCode(error);
  if (name === 'InvalidCommentToken') {
    return new CniError('has a comment, and CNI configs are plain JSON', { offset }, 'remove the comment');
  }
  const before = json.slice(0, offset).trimEnd();
  if (before.endsWith(',') && /[}\]]/.test(json.charAt(offset))) {
    const comma = { offset: before.length - 1 };
    return new CniError('has a comma behind the last item', comma, 'remove the comma');
  }
  const words = name.replace(/(?!^)[A-Z]/g, (letter) => ` ${letter}`).toLowerCase();
  const remedy = 'check quotes, commas and brackets here and just before';
  return new CniError(`is not valid JSON: ${words}`, { offset }, remedy);
}
