import fc from 'fast-check';

/** A text of a few stretches, each of which repeats a piece of YAML. */
export interface Pattern {
  /** The text with stretches of about so many characters. */
  repeat(length: number): string;
  /** For people. */
  readonly name: string;
}

/** What the structure of a text consists of. */
const INDICATORS = ['\n', ' ', '-\n', '?\n', ':\n', '#\n', ', ', '[', '{', '"', '&a ', 'a'];

const TOKENS = [
  ...['\n', '\r', '\r\n', ' ', '\t', '  ', '#', "'", '"', '\\', '|', '>', '|-', '~', 'a', '9', '.', 'é'],
  ...['\ufeff', '- ', '-\n', '? ', '?\n', ': ', ':\n', ', ', '[', ']', '{', '}', '\n- ', '\n  - ', '\n a'],
  ...['# a\n', '#\r-\n', '&a ', '*a ', '! ', '!t ', '!!str ', '---\n', '...\n', '%TAG !a! b\n', '<<: '],
  ...['a: ', 'a: b\n', '"a": ', 'masqLinkLocal: yes\n', 'nonMasqueradeCIDRs:\n', 'nonMasqueradeCIDRs: ['],
  ...['- 10.0.0.0/8\n', '- fd00::/8\n', '10.0.0.1/8, '],
];

/** Where a repetition may stand. */
const HEADS = ['', '?', 'a:', '- ', '[', '{?'];

/** Texts in which pieces of YAML repeat: what a parser needs much time for is mostly such a text. */
export function anyPattern(): fc.Arbitrary<Pattern> {
  const pieces = fc.array(fc.constantFrom(...INDICATORS, ...TOKENS), { minLength: 1, maxLength: 3 });
  const wild = fc.array(
    pieces.map((tokens) => tokens.join('')),
    { minLength: 1, maxLength: 3 },
  );
  const bare = fc.array(fc.constantFrom(...INDICATORS), { minLength: 2, maxLength: 2 });
  return fc.tuple(fc.constantFrom(...HEADS), fc.oneof(wild, bare)).map(([head, units]) => ({
    repeat: (length) => head + units.map((unit) => unit.repeat(Math.ceil(length / unit.length))).join(''),
    name: JSON.stringify([head, ...units]),
  }));
}
