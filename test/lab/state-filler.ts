import { readLastValid } from '../../lib/state/state-dir.ts';
import { writeLastValid } from '../../lib/state/write-state.ts';
import { configFilesOf, lastValid } from './state-texts.ts';

// Writes two states to a small disk, and prints which of them is there then. Usage: state-filler.ts DIR
const [dir = ''] = process.argv.slice(2);
for (const word of ['a', 'b'])
  await writeLastValid(dir, 'node', lastValid(configFilesOf(word))).catch(() => {});
const state = await readLastValid(dir, 'node', 2 ** 21);
console.log(state === undefined ? 'none' : wordOf(state.configFiles));

function wordOf(configFiles: readonly { readonly text: string }[]): string {
  return [...new Set(configFiles.map(({ text }) => text[2]))].join('');
}
