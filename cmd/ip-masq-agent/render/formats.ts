import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { addressRemarks } from '../../../lib/agent/log-addresses.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import { formatProblem, formatRemark, type Problem, problem, strictly } from '../../../lib/config/problem.ts';
import { decodeSource, Locator, type Source } from '../../../lib/config/source.ts';
import { renderChains } from '../../../lib/dataplane/iptables/plan.ts';
import { renderTables } from '../../../lib/dataplane/nftables/table.ts';
import type { DataplaneOptions } from '../../../lib/dataplane/options.ts';
import { ownAddressList } from '../../../lib/node/own-addresses.ts';
import { compilePolicy, keptFamilies, type Policy } from '../../../lib/policy/policy.ts';
import { singleSource, sourceText } from '../../../lib/report/single-source.ts';
import { counted } from '../../../lib/text/words.ts';
import { withExceptionList } from '../../../lib/win-bridge/exception-list.ts';
import type { FlagValues } from '../flags.ts';
import { flatPrefixes, flatSource } from './flat-source.ts';

/** The format of the output. */
export type RenderFormat =
  | { readonly kind: 'iptables' | 'nftables'; readonly options: DataplaneOptions }
  /** `limit` is the number of CIDRs that this agent takes. */
  | { readonly kind: 'config'; readonly flatten: boolean; readonly limit: number }
  | { readonly kind: 'win-bridge'; readonly inputFile: string };

/** The merged config in the format of the output. */
export interface Rendered {
  readonly text: string;
  /** What people should know about the text. */
  readonly notes: readonly string[];
  /** Whether there is no source. The output file is then removed, so that its reader uses its own defaults. */
  readonly isDefault: boolean;
}

/**
 * Renders the merged config.
 *
 * @throws {InvalidConfigError} if the CNI config cannot be read or changed; if `strict`, also if a reader of the text would
 * masquerade otherwise than is meant
 */
export async function renderAs(
  format: RenderFormat,
  config: MergedConfig,
  { 'enable-ipv6': enableIPv6, strict }: Pick<FlagValues, 'enable-ipv6' | 'strict'>,
): Promise<Rendered> {
  switch (format.kind) {
    case 'iptables':
      return renderRules(policiesOf(config, enableIPv6), (all) => renderChains(all, format.options));
    case 'nftables':
      return renderRules(policiesOf(config, enableIPv6), (all) => renderTables(all, format.options));
    case 'config':
      return forOthers(renderConfig(config, enableIPv6, format), config, strict);
    case 'win-bridge':
      return forOthers(await renderCniConfig(config, format.inputFile), config, strict);
  }
}

/** What programs that do not know a key do instead. */
const WITHOUT_KEY = {
  masqueradeFromCIDRs: 'masquerade packets from anywhere',
  masqueradeAddresses: 'masquerade with the address that the kernel chooses',
} as const;

/** Adds what other programs do not know, and what they do instead. */
function forOthers(rendered: Rendered, config: MergedConfig, strict: boolean): Rendered {
  const found = (['masqueradeFromCIDRs', 'masqueradeAddresses'] as const).flatMap((key) => {
    const [first] = config[key];
    if (first === undefined) return [];
    return problem('unknown-to-others', {
      at: first.origin,
      message: `ip-masq-agent v1 and v2, Cilium and win-bridge do not know ${key}: they ${WITHOUT_KEY[key]}`,
      remedy: 'let only this agent read it, or remove the key',
    });
  });
  if (strict && found.length > 0)
    throw new InvalidConfigError(found.map(strictly), [], 'the rendered config');
  return { ...rendered, notes: [...rendered.notes, ...found.map(formatProblem)] };
}

/** The policies of the machine that renders. */
function policiesOf(config: MergedConfig, enableIPv6: boolean): readonly Policy[] {
  const own = ownAddressList();
  return keptFamilies(enableIPv6).map((family) => compilePolicy(config, family, own));
}

function renderRules(policies: readonly Policy[], textOf: (policies: readonly Policy[]) => string): Rendered {
  const notes = addressRemarks(policies).map((one) => formatRemark(one));
  return { text: textOf(policies), notes, isDefault: false };
}

/** The most nonMasqueradeCIDRs that ip-masq-agent v1 and v2 accept, which do not know `cidrLimit`. */
const COMMON_LIMIT = 64;

function renderConfig(
  config: MergedConfig,
  enableIPv6: boolean,
  { flatten, limit }: RenderFormat & { readonly kind: 'config' },
): Rendered {
  const source = flatten ? flatSource(config, enableIPv6) : singleSource(config, enableIPv6);
  const count = source.nonMasqueradeCIDRs.length;
  const notes = [
    ...(source.masqueradeCIDRs.length > 0
      ? [
          'only this agent knows masqueradeCIDRs, other agents ignore them: --flatten writes them as nonMasqueradeCIDRs',
        ]
      : []),
    ...(count > COMMON_LIMIT
      ? [`${count} nonMasqueradeCIDRs: older agents accept at most ${COMMON_LIMIT}`]
      : []),
    ...(count > limit
      ? [`${count} nonMasqueradeCIDRs: this agent takes at most ${limit}, its --cidr-limit-max`]
      : []),
  ];
  return { text: sourceText(source), notes, isDefault: config.sources.length === 0 };
}

async function renderCniConfig(config: MergedConfig, path: string): Promise<Rendered> {
  const input = await readCniConfig(path);
  const cidrs = flatPrefixes(compilePolicy(config, 'IPv4')).map(({ prefix }) => prefix.text);
  const result = withExceptionList(input.text, cidrs);
  if ('error' in result) {
    const { message, remedy, offset } = result.error;
    const at = new Locator(input).origin(offset);
    throw cniConfigError({ severity: 'error', kind: 'shape', at, message, remedy }, [input]);
  }
  const dropped = [...config.nonMasqueradeCIDRs, ...config.masqueradeCIDRs].filter(
    ({ value }) => value.family === 'IPv6',
  ).length;
  const notes =
    dropped > 0
      ? [`IPv6 is left out, because an ExceptionList is IPv4 only: ${counted(dropped, 'CIDR')}`]
      : [];
  return { text: result.text, notes, isDefault: false };
}

async function readCniConfig(path: string): Promise<Source> {
  const unreadable = (message: string) => {
    const at = { kind: 'whole-file', source: path } as const;
    const remedy = 'set --input-file to the CNI config';
    return cniConfigError({ severity: 'error', kind: 'unreadable', at, message, remedy });
  };
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: Error) => {
    throw unreadable(`cannot be read: ${error.message}`);
  });
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw unreadable('is not a regular file');
    if (stats.size > MAX_CNI_CONFIG_BYTES) throw unreadable('is larger than 256 KiB');
    const bytes = await file.readFile();
    const decoded = decodeSource(path, bytes);
    if (!('text' in decoded)) throw cniConfigError(decoded);
    // Decoding drops a byte order mark; the output keeps it.
    return { name: path, text: bytes.toString('utf8') };
  } finally {
    await file.close();
  }
}

const MAX_CNI_CONFIG_BYTES = 256 * 1024;

function cniConfigError(problem: Problem, sources: readonly Source[] = []): InvalidConfigError {
  return new InvalidConfigError([problem], sources, 'the CNI config');
}
