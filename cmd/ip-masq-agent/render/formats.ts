import { addressRemarks } from '../../../lib/agent/address-remarks.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { type ConfigFile, problemIn } from '../../../lib/config/config-file.ts';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import { KEYS } from '../../../lib/config/keys.ts';
import { formatRemark, type Problem } from '../../../lib/config/problem.ts';
import { renderChains } from '../../../lib/dataplane/iptables/plan.ts';
import { renderTables } from '../../../lib/dataplane/nftables/table.ts';
import type { DataplaneOptions } from '../../../lib/dataplane/options.ts';
import { readFile } from '../../../lib/inputs/input.ts';
import { usableSourceAddresses } from '../../../lib/node/own-addresses.ts';
import { compilePolicy, type Policy } from '../../../lib/policy/policy.ts';
import { configFileText } from '../../../lib/report/config-file-text.ts';
import { PlacedError } from '../../../lib/text/error.ts';
import { counted } from '../../../lib/text/words.ts';
import { withExceptionList } from '../../../lib/win-bridge/exception-list.ts';
import type { Args } from '../command.ts';
import type { RENDER_FLAGS } from '../command-flags.ts';
import { dataplaneOptions, keptFamilies } from '../from-flags.ts';
import { flatConfig, flatPrefixes } from './flat-config.ts';

interface Rendered {
  readonly text: string;
  /** What people should know about the text. */
  readonly notes: readonly string[];
}

type RenderFlags = Args<typeof RENDER_FLAGS>['flags'];

/**
 * Renders the merged config in the format that the flags ask for.
 *
 * @throws {InvalidConfigError} if the CNI config cannot be read or changed
 */
export async function renderAs(config: MergedConfig, flags: RenderFlags): Promise<Rendered> {
  switch (flags.format) {
    case 'iptables':
      return renderRules(config, flags, renderChains);
    case 'nftables':
      return renderRules(config, flags, renderTables);
    case 'config':
      return forOthers(renderConfig(config, flags), config);
    case 'win-bridge':
      return forOthers(await renderCniConfig(config, flags['input-file']), config);
  }
}

/** Adds what other programs do not know, and what they do instead. */
function forOthers(rendered: Rendered, config: MergedConfig): Rendered {
  const found = KEYS.flatMap(({ name, otherAgentsDo, setAt }) => {
    const at = setAt(config);
    if (otherAgentsDo === undefined || at === undefined) return [];
    const message = `ip-masq-agent v1 and v2, Cilium and win-bridge do not know ${name}: they ${otherAgentsDo}`;
    return formatRemark({ at, message, remedy: 'let only this agent read the file, or remove the key' });
  });
  return { ...rendered, notes: [...rendered.notes, ...found] };
}

/** The rules of the machine that renders. */
function renderRules(
  config: MergedConfig,
  flags: RenderFlags,
  textOf: (policies: readonly Policy[], options: DataplaneOptions) => string,
): Rendered {
  const own = usableSourceAddresses();
  const policies = keptFamilies(flags).map((family) => compilePolicy(config, family, own));
  const notes = addressRemarks(policies).map((one) => formatRemark(one));
  return { text: textOf(policies, dataplaneOptions(flags)), notes };
}

/** The most nonMasqueradeCIDRs that ip-masq-agent v1 and v2 accept, which do not know `cidrLimit`. */
const COMMON_LIMIT = 64;

function renderConfig(config: MergedConfig, flags: RenderFlags): Rendered {
  const families = keptFamilies(flags);
  const configFile = flags.flatten ? flatConfig(config, families) : config;
  const count = configFile.nonMasqueradeCIDRs.length;
  const notes: string[] = [];
  if (configFile.masqueradeCIDRs.length > 0)
    notes.push(
      'only this agent knows masqueradeCIDRs, other agents ignore them: --flatten writes them as nonMasqueradeCIDRs',
    );
  if (count > COMMON_LIMIT)
    notes.push(`${count} nonMasqueradeCIDRs: older agents accept at most ${COMMON_LIMIT}`);
  return { text: configFileText(configFile, families), notes };
}

async function renderCniConfig(config: MergedConfig, path: string): Promise<Rendered> {
  const input = await readFile(path);
  if (!('text' in input)) throw cniConfigError(input);
  const cidrs = flatPrefixes(compilePolicy(config, 'IPv4')).map(({ value }) => value.text);
  const dropped = [...config.nonMasqueradeCIDRs, ...config.masqueradeCIDRs].filter(
    ({ value }) => value.family === 'IPv6',
  ).length;
  const notes =
    dropped > 0
      ? [`IPv6 is left out, because an ExceptionList is IPv4 only: ${counted(dropped, 'CIDR')}`]
      : [];
  try {
    return { text: withExceptionList(input.text, cidrs), notes };
  } catch (error) {
    if (!(error instanceof PlacedError)) throw error;
    throw cniConfigError(problemIn(input, 'shape', error, error.message, error.remedy), [input]);
  }
}

function cniConfigError(problem: Problem, configFiles: readonly ConfigFile[] = []): InvalidConfigError {
  return new InvalidConfigError([problem], configFiles, 'the CNI config');
}
