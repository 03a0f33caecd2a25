import { globSync, readFileSync } from 'node:fs';

// Prints how many lines of code and of comments the folders have that are named as arguments.
for (const folder of process.argv.slice(2)) {
  const texts = globSync(`${folder}/**/*.ts`).map((file) => readFileSync(file, 'utf8'));
  const { code, comments } = countLines(texts);
  console.log(`${folder.padEnd(5)}${thousands(code)} lines of code,${thousands(comments)} of comments`);
}

function countLines(texts: readonly string[]) {
  const lines = texts.flatMap((text) => text.split('\n')).map((line) => line.trim());
  const filled = lines.filter((line) => line !== '');
  // The formatter begins each line of a comment so, and no line of code.
  const comments = filled.filter((line) => /^(?:\/\/|\/\*|\*(?: |\/|$))/.test(line)).length;
  return { code: filled.length - comments, comments };
}

function thousands(count: number): string {
  return count.toLocaleString('en-US').padStart(8);
}
