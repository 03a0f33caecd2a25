import { systemHost } from '../../lib/dataplane/host.ts';
import { installedTools } from '../../lib/dataplane/versions.ts';
import { buildInfo, versionText } from './build-info.ts';
import type { Args } from './command.ts';
import type { OUTPUT_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import { printResult } from './print.ts';

export async function version({ flags }: Args<typeof OUTPUT_FLAGS>): Promise<number> {
  const tools = await installedTools(systemHost(flags['sync-timeout']));
  const lines = tools.map(({ name, version }) => `  ${name}: ${version ?? 'not installed'}`);
  const text = `${[versionText(), ...lines].join('\n')}\n`;
  const { nodejs: node, ...build } = buildInfo();
  return printResult(flags.output, EXIT.ok, { ...build, node, tools }, () => text);
}
