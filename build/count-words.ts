/** Counts the words of the pages against their limits. Usage: node build/count-words.ts */
import { globSync, readFileSync } from 'node:fs';

interface Part {
  readonly name: string;
  readonly limit: number;
  readonly pages: readonly string[];
}

const USERS: readonly Part[] = [
  { name: 'README', limit: 900, pages: ['README.md'] },
  { name: 'install', limit: 2_500, pages: ['docs/install.md'] },
  { name: 'configuration', limit: 2_000, pages: ['docs/configuration.md'] },
  { name: 'migration', limit: 2_000, pages: ['docs/migration.md'] },
  { name: 'how it works', limit: 1_500, pages: ['docs/how-it-works.md'] },
  { name: 'runbook', limit: 3_000, pages: ['docs/runbook.md'] },
  { name: 'reference', limit: 1_000, pages: ['docs/reference.md'] },
  { name: 'compatibility', limit: 700, pages: ['docs/compatibility.md'] },
  { name: 'SECURITY', limit: 1_200, pages: ['SECURITY.md'] },
  { name: 'examples', limit: 1_200, pages: pages('examples/**/*.md') },
];
// What commands print in test/golden is generated, and a test compares it.
const MAKERS: readonly Part[] = [
  {
    name: 'for people who change it',
    limit: 7_000,
    pages: pages('{CHANGELOG.md,.github/**/*.md,test/*/*.md}'),
  },
];
const FOR_USERS = 18_000;

/** A part that is generated, and that a test compares. */
const GENERATED = /<!-- ([\w ]+): generated .*?<!-- end of \1 -->/gs;

function pages(pattern: string): readonly string[] {
  return globSync(pattern).toSorted();
}

/** How many words a person reads: what has a letter or a digit, in examples too. */
function wordsOf(page: string): number {
  const text = readFileSync(page, 'utf8')
    .replaceAll(GENERATED, '')
    .replaceAll(/\]\([^)]*\)/g, ']');
  return text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}

/** Prints how many words a part has; whether they are too many. */
function isTooLong(name: string, words: number, limit: number): boolean {
  const isMore = words > limit;
  console.log(`${name.padEnd(25)}${`${words}`.padStart(7)} words of ${limit}${isMore ? ': TOO MANY' : ''}`);
  return isMore;
}

const counted = [...USERS, ...MAKERS].map((part) => ({
  ...part,
  words: part.pages.map(wordsOf).reduce((sum, words) => sum + words, 0),
}));
const known = counted.flatMap(({ pages }) => pages);
const left = pages('{*,docs/*,examples/**/*}.md').filter((page) => !known.includes(page));
const total = counted.slice(0, USERS.length).reduce((sum, { words }) => sum + words, 0);
const tooLong = [
  ...counted.map(({ name, words, limit }) => isTooLong(name, words, limit)),
  isTooLong('all for people who use it', total, FOR_USERS),
];
if (left.length > 0) console.log(`pages without a limit: ${left.join(', ')}`);
if (left.length > 0 || tooLong.includes(true)) process.exitCode = 1;
