let last: { readonly text: string; readonly starts: readonly number[] } = { text: '', starts: [0] };

/** Where the lines of a text begin. Of many sources in one file it is found out once. */
export function lineStarts(text: string): readonly number[] {
  if (text === last.text) return last.starts;
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  last = { text, starts };
  return starts;
}
