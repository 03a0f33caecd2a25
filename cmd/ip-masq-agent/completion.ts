import type { Args } from './command.ts';
import { completionScript } from './completion-script.ts';
import { EXIT, UsageError } from './exit.ts';
import { print } from './print.ts';

/** Prints the completion script of a shell. */
export async function completion({ operands: [shell = ''] }: Args): Promise<number> {
  if (shell !== 'bash' && shell !== 'zsh') throw new UsageError('completion is for bash or zsh');
  print(completionScript(shell));
  return EXIT.ok;
}
