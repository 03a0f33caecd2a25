import { realpathSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { Reasons } from '../../../lib/agent/reasons.ts';
import { survey } from '../../../lib/agent/rule-locations.ts';
import { NO_CONFIG } from '../../../lib/agent/state.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { isConfigFileName } from '../../../lib/config/config-file.ts';
import { ruleLocationName } from '../../../lib/dataplane/dataplane.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { fileName } from '../../../lib/text/escape.ts';
import type { Args } from '../command.ts';
import type { RENDER_FLAGS } from '../command-flags.ts';
import { runDaemon } from '../daemon.ts';
import { EXIT, UsageError } from '../exit.ts';
import { nodeAccess, readerOptions } from '../from-flags.ts';
import { print, printError } from '../print.ts';
import { readConfig } from '../read-config.ts';
import { stopSignal } from '../signals.ts';
import { compareSources } from './diff-to.ts';
import { renderAs } from './formats.ts';
import type { OutputState } from './output-checks.ts';
import { writeOutput } from './output-file.ts';
import { keepOutput, type Output, UNCHANGED } from './sidecar.ts';

type RenderArgs = Args<typeof RENDER_FLAGS>;

export async function render(args: RenderArgs): Promise<number> {
  const { flags } = args;
  checkFlags(flags);
  const outputFile = flags['output-file'];
  if (flags['diff-to'].length > 0) {
    const kinds = ['watch', 'output-file', 'health-bind-address', 'format', 'flatten'];
    const other = kinds.find((name) => args.flagTexts.has(name));
    if (other !== undefined) throw new UsageError(`--diff-to cannot be set with --${other}`);
    return compareSources(flags);
  }
  if (flags.live) return renderLive(args);
  const renderConfig = (config: MergedConfig) => renderAs(config, flags);
  if (flags.watch) {
    return runDaemon(
      args,
      async () => UNCHANGED,
      (log) => ({ work: watchConfigFiles({ path: outputFile, render: renderConfig }, flags, log) }),
    );
  }
  const { text, notes, isDefault } = await renderConfig(await readConfig(flags));
  for (const note of notes) printError(`ip-masq-agent: note: ${note}`);
  if (outputFile === '') print(text);
  else printError(`${fileName(outputFile)}: ${await write(outputFile, isDefault ? undefined : text)}`);
  return EXIT.ok;
}

/** Prints the rules of the agent in the kernel, wherever they are. */
async function renderLive({ flags, flagTexts }: RenderArgs): Promise<number> {
  const other = ['watch', 'output-file', 'format', 'filename'].find((name) => flagTexts.has(name));
  if (other !== undefined) throw new UsageError(`--live cannot be set with --${other}`);
  const { used, others } = await survey(nodeAccess(flags));
  for (const place of [...used, ...others]) {
    if (place.kind === 'unreadable') throw place.error;
    const text = place.kind === 'found' ? place.observed.text() : undefined;
    if (text !== undefined) print(`# ${ruleLocationName(place)}\n${text}`);
  }
  return EXIT.ok;
}

/** Keeps the output file until a signal. */
async function watchConfigFiles(
  what: Pick<Output, 'path' | 'render'>,
  flags: RenderArgs['flags'],
  log: Logger,
): Promise<void> {
  const loading = readerOptions(flags);
  const [reasons, notices] = [new Reasons(), new Notices(log)];
  process.on('SIGHUP', () => reasons.add('signal'));
  const state: OutputState = { config: NO_CONFIG };
  const address = flags['health-bind-address'];
  if (address !== '') {
    // Without it, the sidecar needs no server in its memory.
    const { serveProbes } = await import('./output-checks.ts');
    await serveProbes(address, loading.configDir, state, loading.resyncInterval, notices);
  }
  const output = { ...what, loading, keeps: flags['on-invalid-config'] === 'keep' };
  await keepOutput(output, reasons, state, notices, stopSignal);
}

async function write(path: string, text: string | undefined): Promise<string> {
  const change = await writeOutput(path, text);
  return text === undefined
    ? `${change}, because there is no config file: its reader uses its own defaults`
    : change;
}

/** @throws {UsageError} if flags contradict each other */
function checkFlags(flags: RenderArgs['flags']): void {
  const { format, flatten } = flags;
  const inputFile = flags['input-file'];
  const outputFile = flags['output-file'];
  if (flatten && format !== 'config') throw new UsageError('--flatten needs --format=config');
  if (flags.watch && outputFile === '') throw new UsageError('--watch needs --output-file');
  if (flags['health-bind-address'] !== '' && !flags.watch)
    throw new UsageError('--health-bind-address needs --watch');
  if (flags.watch && (flags.filename.length > 0 || flags.recursive))
    throw new UsageError('--watch follows --config-dir, and takes no --filename or --recursive');
  if ((inputFile !== '') !== (format === 'win-bridge'))
    throw new UsageError('--format=win-bridge and --input-file must be set together');
  if (format === 'win-bridge' && !flags['enable-ipv4'])
    throw new UsageError('--format=win-bridge writes only IPv4: leave out --enable-ipv4=false');
  const inputs = [flags['config-dir'], ...flags.filename].map(realDirectory);
  if (isConfigFileName(basename(outputFile)) && inputs.includes(realDirectory(dirname(outputFile))))
    throw new UsageError('--output-file would be a config file of the next sync: write it elsewhere');
}

/** The path of a directory without links: equal for all paths of the same directory. */
function realDirectory(dir: string): string {
  try {
    return realpathSync(dir);
  } catch {
    return resolve(dir);
  }
}
