import { PlacedError } from '../text/error.ts';
import { MAX_LINES } from './limits.ts';
import { isBreak } from './yaml.ts';

/**
 * Line breaks, and the indicators of a text (YAML 1.2, section 5.3) at places where a YAML value, a document or a directive may
 * begin. A line that is only a comment is one match, unless a quote in it may end a text that began before. The last character of
 * a match says which it is: of 10,000 CIDRs, no match is kept.
 */
const MARK =
  /(?<![^\r\n])[ \t]*#[^"'\r\n]*(?:\r\n?|\n|$)|\r\n?|\n|[[{,]|[-?:](?![^ \t\r\n])|(?<![^\r\n])[ \t]*[.%]/g;

/** A comment in the last line may end with one too. */
const INDICATORS = '[{,-?:.%';

/**
 * Counts the indicators. Their number bounds the memory of the YAML parser, which makes at most six events for each, and keeps
 * them all. Indicators in quotes, in blocks and in comments behind a value make no event, but count too.
 *
 * @param limit how many indicators there may be
 * @throws {PlacedError} if the parser would need too much memory for the text
 */
export function countIndicators(text: string, limit: number): number {
  let lines = 0;
  let indicators = 0;
  MARK.lastIndex = 0;
  while (MARK.test(text)) {
    const index = MARK.lastIndex - 1;
    if (isBreak(text[index])) lines += 1;
    else if (INDICATORS.includes(text[index] ?? '')) indicators += 1;
    if (indicators > limit) {
      const remedy = 'list fewer CIDRs, or start the agent with a larger --cidr-limit-max';
      throw new PlacedError('has too many keys and items', index, remedy);
    }
    if (lines > MAX_LINES) {
      const remedy = 'remove the lines that say nothing, or split the config file';
      throw new PlacedError(`has more than ${MAX_LINES} lines`, index, remedy);
    }
  }
  return indicators;
}
