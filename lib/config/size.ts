import { PlacedError } from '../text/error.ts';
import { MAX_LINES } from './limits.ts';
import { isBlank, isBreak } from './yaml.ts';

/**
 * Counts the indicators of a text (YAML 1.2, section 5.3) at places where a YAML value, a document or a directive may begin. Their number bounds
 * the memory of the YAML parser, which makes at most six events for each, and keeps them all. Indicators in quotes, in blocks and
 * in comments behind a value make no event, but count too.
 *
 * @param limit how many indicators there may be
 * @throws {PlacedError} if the parser would need too much memory for the text
 */
export function countIndicators(text: string, limit: number): number {
  let lines = 0;
  let indicators = 0;
  let isLineStart = true;
  for (let at = 0; at < text.length; at += 1) {
    if (isBlank(text[at])) continue;
    if (isLineStart && text[at] === '#') at = endOfComment(text, at);
    if (isIndicator(text[at], text[at + 1], isLineStart)) indicators += 1;
    if (indicators > limit) {
      const remedy = 'list fewer CIDRs, or start the agent with a larger --cidr-limit-max';
      throw new PlacedError('has too many keys and items', at, remedy);
    }
    isLineStart = isBreak(text[at]);
    if (!isLineStart || (text[at] === '\r' && text[at + 1] === '\n')) continue;
    lines += 1;
    if (lines > MAX_LINES) {
      const remedy = 'remove the lines that say nothing, or split the config file';
      throw new PlacedError(`has more than ${MAX_LINES} lines`, at, remedy);
    }
  }
  return indicators;
}

/** The end of a line that is only a comment; its start if a quote in it may end a text that began before. */
function endOfComment(text: string, start: number): number {
  let end = start;
  while (end < text.length && !isBreak(text[end])) {
    if (text[end] === '"' || text[end] === "'") return start;
    end += 1;
  }
  return end;
}

function isIndicator(char: string | undefined, next: string | undefined, isLineStart: boolean): boolean {
  switch (char) {
    case '[':
    case '{':
    case ',':
      return true;
    case '-':
    case '?':
    case ':':
      return next === undefined || isBlank(next) || isBreak(next);
    case '.':
    case '%':
      return isLineStart;
    default:
      return false;
  }
}
