import { buildInfo, versionText } from './build-info.ts';
import type { Args } from './command.ts';
import type { OUTPUT_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import { printResult } from './print.ts';

export async function version({ flags }: Args<typeof OUTPUT_FLAGS>): Promise<number> {
  const { nodejs: node, ...build } = buildInfo();
  return printResult(flags.output, EXIT.ok, { ...build, node }, () => `${versionText()}\n`);
}
