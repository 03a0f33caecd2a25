/** What says that a word means the opposite of the rest of it, and that it is about sources. */
const [NEGATION, OF_SOURCES] = [
  /(?:^|-)(?:no|un)|avoid|bypass|deny|disable|dont|except|exclu|ignore|mustn|never|no[nt]|omit|skip|without/,
  /from|pod|src|source/,
];

/**
 * The candidate with the smallest edit distance to the word; undefined if too many of its letters differ, a third
 * of them at most, or if it means something else.
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const folded = word.toLowerCase().slice(0, 64);
  let best: { candidate: string; distance: number } | undefined;
  for (const candidate of candidates) {
    const other = candidate.toLowerCase();
    const isAlike = (meaning: RegExp) => meaning.test(folded) === meaning.test(other);
    const [family, itsFamily] = [folded, other].map((text) => /ipv?([46])/.exec(text)?.[1]);
    const isOfOther = family !== undefined && itsFamily !== undefined && family !== itsFamily;
    if (!isAlike(NEGATION) || !isAlike(OF_SOURCES) || isOfOther) continue;
    const distance = editDistance(folded, other);
    if (best === undefined || distance < best.distance) best = { candidate, distance };
  }
  const most = Math.min(folded.length / 3, Math.max(2, folded.length / 4));
  return best !== undefined && best.distance <= most ? best.candidate : undefined;
}

/** Levenshtein distance. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const current = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      current.push(Math.min(substitution, (previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}
