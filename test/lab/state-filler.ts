import { readState, writeState } from '../../lib/state/state-dir.ts';
import { configFilesOf } from './state-texts.ts';

// Writes two states to a small disk, and prints which of them is there then. Usage: state-filler.ts DIR SIZE
const [dir = '', size] = process.argv.slice(2);
for (const word of ['a', 'b']) await writeState(dir, 'node', configFilesOf(word)).catch(() => {});
const state = await readState(dir, 'node', 2 ** 21);
console.log(size, state === undefined ? 'none' : wordOf(state.configFiles));

function wordOf(configFiles: readonly { readonly text: string }[]): string {
  return [...new Set(configFiles.map(({ text }) => text[2]))].join('');
}
