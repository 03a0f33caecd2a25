/** What tests measure the work of. */
import { problemFramer } from '../../../lib/config/frame.ts';
import { mergeConfigFiles } from '../../../lib/config/load.ts';
import { OPTIONS } from './support.ts';

/** As if there were no limits: they would hide what takes too much. */
const UNLIMITED = { ...OPTIONS, cidrLimit: 1e6, cidrLimitMax: 1e6 };

/** Reads two config files of that text. */
export function readTwice(text: string): void {
  mergeConfigFiles(
    ['a', 'b'].map((name) => ({ name, text })),
    UNLIMITED,
  );
}

/** Shows the last lines of two config files of the same text, each with a line of the other. */
export function showFrames(text: string, count: number): void {
  const configFiles = ['s', 'other'].map((name) => ({ name, text }));
  const last = text.split('\n').length;
  for (let line = 1; line <= count; line += 1) {
    const at = { kind: 'file', configFile: 's', line: last - line, column: 1 } as const;
    const other = { kind: 'file', configFile: 'other', line, column: 1 } as const;
    problemFramer(configFiles)({
      ...{ severity: 'error', kind: 'shape', message: 'is wrong', remedy: 'do right' },
      ...{ at, other },
    });
  }
}
