import type { Prefix } from '../cidr/prefix.ts';
import type { MasqueradeAddress, MergedConfig } from '../config/config.ts';
import { DEFAULT_LIMITS } from '../config/limits.ts';
import { printable } from '../text/escape.ts';
import { formatOrigin, type Located, type Origin } from '../text/origin.ts';

/** One source that says what all sources say together, for programs that read a single file. */
export interface SingleSource {
  /** Names of the sources that it stands for. */
  readonly sources: readonly string[];
  readonly nonMasqueradeCIDRs: readonly ListedPrefix[];
  readonly masqueradeCIDRs: readonly ListedPrefix[];
  readonly masqueradeFromCIDRs: readonly ListedPrefix[];
  readonly masqueradeAddresses: readonly Located<MasqueradeAddress>[];
  readonly masqLinkLocal: Located<boolean>;
  /** Undefined if IPv6 is not enabled: not every reader knows the key. */
  readonly masqLinkLocalIPv6: Located<boolean> | undefined;
  /** Milliseconds. */
  readonly resyncInterval: Located<number> | undefined;
}

/** A prefix and everybody who asks for it. */
export interface ListedPrefix {
  readonly prefix: Prefix;
  readonly origins: readonly Origin[];
}

/** The merged config as one source, order and exceptions kept. */
export function singleSource(config: MergedConfig, enableIPv6: boolean): SingleSource {
  return {
    sources: config.sources,
    nonMasqueradeCIDRs: listed(config.nonMasqueradeCIDRs),
    masqueradeCIDRs: listed(config.masqueradeCIDRs),
    masqueradeFromCIDRs: listed(config.masqueradeFromCIDRs),
    masqueradeAddresses: config.masqueradeAddresses,
    masqLinkLocal: config.masqLinkLocal,
    masqLinkLocalIPv6: enableIPv6 ? config.masqLinkLocalIPv6 : undefined,
    resyncInterval: config.resyncInterval,
  };
}

/** Each prefix with its only origin. */
export function listed(items: readonly Located<Prefix>[]): readonly ListedPrefix[] {
  return items.map(({ value, origin }) => ({ prefix: value, origins: [origin] }));
}

/** The source as YAML, each value with its origin as a comment. The same source gives the same bytes. */
export function sourceText(source: SingleSource): string {
  const { nonMasqueradeCIDRs, masqueradeCIDRs, masqueradeFromCIDRs, masqueradeAddresses } = source;
  const { masqLinkLocal, masqLinkLocalIPv6, resyncInterval } = source;
  const lists = [nonMasqueradeCIDRs, masqueradeCIDRs, masqueradeFromCIDRs, masqueradeAddresses];
  const count = lists.reduce((sum, { length }) => sum + length, 0);
  const lines = [
    `# Merged by ip-masq-agent from ${source.sources.map((name) => comment(printable(name))).join(', ') || 'its defaults'}`,
    ...listLines('nonMasqueradeCIDRs', nonMasqueradeCIDRs),
    ...(masqueradeCIDRs.length > 0 ? listLines('masqueradeCIDRs', masqueradeCIDRs) : []),
    ...(masqueradeFromCIDRs.length > 0 ? listLines('masqueradeFromCIDRs', masqueradeFromCIDRs) : []),
    ...(masqueradeAddresses.length > 0 ? addressLines(masqueradeAddresses) : []),
    scalarLine('masqLinkLocal', masqLinkLocal),
    ...(masqLinkLocalIPv6 === undefined ? [] : [scalarLine('masqLinkLocalIPv6', masqLinkLocalIPv6)]),
    ...(resyncInterval === undefined
      ? []
      : [scalarLine('resyncInterval', { ...resyncInterval, value: durationText(resyncInterval.value) })]),
    ...(count > DEFAULT_LIMITS.cidrLimit ? [`cidrLimit: ${count}`] : []),
  ];
  return `${lines.join('\n')}\n`;
}

function listLines(key: string, items: readonly ListedPrefix[]): readonly string[] {
  // Without the key, some readers would take their defaults.
  if (items.length === 0) return [`${key}: []`];
  return [
    `${key}:`,
    ...items.map(
      ({ prefix, origins }) =>
        `  - ${prefixText(prefix)} # ${[...new Set(origins.map(originComment))].join(', ')}`,
    ),
  ];
}

function addressLines(items: readonly Located<MasqueradeAddress>[]): readonly string[] {
  return [
    'masqueradeAddresses:',
    ...items.flatMap(({ value: { destination, range }, origin }) => [
      `  - destination: ${prefixText(destination)} # ${originComment(origin)}`,
      `    address: ${prefixText(range)}`,
    ]),
  ];
}

/** In quotes if it has a colon, which has a meaning in YAML. */
function prefixText({ family, text }: Prefix): string {
  return family === 'IPv6' ? `"${text}"` : text;
}

function scalarLine(key: string, { value, origin }: Located<boolean | string>): string {
  return `${key}: ${value} # ${originComment(origin)}`;
}

function originComment(origin: Origin): string {
  return comment(formatOrigin(origin));
}

/** The only printable characters that YAML does not allow, not even in comments: go-yaml refuses the file (YAML 1.1, 5.1). */
function comment(printableText: string): string {
  return printableText.replace(/[\ufffe\uffff]/g, '\ufffd');
}

function durationText(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}
