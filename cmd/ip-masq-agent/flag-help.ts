import { type Flag, type FlagTable, spellings } from './flag-table.ts';
import { isTerminal, STDOUT } from './print.ts';

/** Columns of the help where standard output is not a terminal. */
const WIDTH = 100;

/** The flags of a table as the help shows them. */
export function flagLines(table: FlagTable): string {
  return Object.entries(table).map(flagHelp).join('\n');
}

function flagHelp([name, flag]: [string, Flag<unknown>]): string {
  const { kind, default: preset, help } = flag;
  const optional = kind.orElse === undefined ? '' : `[=${kind.orElse}]`;
  const value = kind.placeholder === '' ? optional : `=${kind.placeholder}`;
  const suffix =
    preset === '' || (kind.placeholder === '' && preset === 'false') ? '' : ` (default ${preset})`;
  return `  ${spellings(name, flag).join(', ')}${value}\n${wrap('      ', `${help}${suffix}`)}`;
}

/** The text in lines that fit a terminal. The first begins with the head, the others with as many spaces. */
export function wrap(head: string, text: string): string {
  const width = (isTerminal(STDOUT) && process.stdout.columns) || WIDTH;
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line === undefined || line.length + word.length >= width)
      lines.push((line === undefined ? head : ' '.repeat(head.length)) + word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines.join('\n');
}
