/** What is given to a test, and what it is to find. */
export interface TextCase {
  readonly name: string;
  /** Without indentation. */
  readonly given: readonly string[];
  readonly found: readonly string[];
}

/** The cases of a text: a name; below it, indented further, the lines that are given, and what is found behind `> `. */
export function casesOf(text: string): readonly TextCase[] {
  return text
    .split(/\n {2}(?=\S)/)
    .slice(1)
    .map((block) => {
      const [name = '', ...below] = block.trimEnd().split(/\n +/);
      const found = below.flatMap((line) => (line.startsWith('> ') ? [line.slice(2)] : []));
      return { name, given: below.filter((line) => !line.startsWith('> ')), found };
    });
}
