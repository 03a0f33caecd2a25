import { survey } from '../../../lib/agent/rule-locations.ts';
import { ruleLocationName } from '../../../lib/dataplane/dataplane.ts';
import type { Args } from '../command.ts';
import type { RENDER_FLAGS } from '../command-flags.ts';
import { EXIT, UsageError } from '../exit.ts';
import { nodeAccess } from '../from-flags.ts';
import { print, printError } from '../print.ts';
import { readConfig } from '../read-config.ts';
import { compareSources } from './diff-to.ts';
import { renderAs } from './formats.ts';

type RenderArgs = Args<typeof RENDER_FLAGS>;

export async function render(args: RenderArgs): Promise<number> {
  const { flags } = args;
  checkFlags(args);
  if (flags['diff-to'].length > 0) return compareSources(flags);
  if (flags.live) return renderLive(flags);
  const { text, notes } = await renderAs(await readConfig(flags), flags);
  for (const note of notes) printError(`ip-masq-agent: note: ${note}`);
  print(text);
  return EXIT.ok;
}

/** Prints the rules of the agent in the kernel, wherever they are. */
async function renderLive(flags: RenderArgs['flags']): Promise<number> {
  const { used, others } = await survey(nodeAccess(flags));
  for (const place of [...used, ...others]) {
    if (place.kind === 'unreadable') throw place.error;
    const text = place.kind === 'found' ? place.observed.text() : undefined;
    if (text !== undefined) print(`# ${ruleLocationName(place)}\n${text}`);
  }
  return EXIT.ok;
}

/** @throws {UsageError} if flags contradict each other */
function checkFlags({ flags, flagTexts }: RenderArgs): void {
  const { format, flatten } = flags;
  refuseOthers(flagTexts, 'diff-to', ['format', 'flatten', 'live']);
  if (flags.live) refuseOthers(flagTexts, 'live', ['format', 'filename']);
  if (flatten && format !== 'config') throw new UsageError('--flatten needs --format=config');
  if ((flags['input-file'] !== '') !== (format === 'win-bridge'))
    throw new UsageError('--format=win-bridge and --input-file must be set together');
  if (format === 'win-bridge' && !flags['enable-ipv4'])
    throw new UsageError('--format=win-bridge writes only IPv4: leave out --enable-ipv4=false');
}

function refuseOthers(
  flagTexts: RenderArgs['flagTexts'],
  one: 'diff-to' | 'live',
  others: readonly string[],
): void {
  const other = others.find((name) => flagTexts.has(one) && flagTexts.has(name));
  if (other !== undefined) throw new UsageError(`--${one} cannot be set with --${other}`);
}
