import type { Prefix } from '../cidr/prefix.ts';
import type { MasqueradeAddress, MergedConfig } from '../config/config.ts';
import type { Problem } from '../config/problem.ts';
import { prettyJson } from '../text/escape.ts';
import type { Located } from '../text/origin.ts';
import { type CheckReport, fileOf, summarize } from './report.ts';

/** The JSON report: the problems and the merged config, for programs. Names and messages can be read back as they were. */
export function jsonReport({ problems, config, sources, expected }: CheckReport): string {
  const summary = summarize(problems);
  const failed = problems.filter(({ kind }) => kind === 'expectation').length;
  return prettyJson({
    valid: config !== undefined,
    summary,
    expectations: expected === undefined ? null : { met: expected.count - failed, failed },
    sources: sources.map(({ name, found }) => ({ name, file: found?.file.name ?? name })),
    problems: problems.map(problemValue),
    merged: config === undefined ? null : mergedValue(config),
  });
}

/** A problem as plain values. */
export function problemValue({ severity, kind, message, remedy, at, other }: Problem) {
  return { severity, kind, message, remedy, at: placeValue(at), other: placeValue(other) };
}

/** A merged config as plain values, each entry with its place. */
export function mergedValue(config: MergedConfig) {
  return {
    sources: config.sources,
    nonMasqueradeCIDRs: config.nonMasqueradeCIDRs.map(entryValue),
    masqueradeCIDRs: config.masqueradeCIDRs.map(entryValue),
    masqueradeFromCIDRs: config.masqueradeFromCIDRs.map(entryValue),
    masqueradeAddresses: config.masqueradeAddresses.map(addressValue),
    masqLinkLocal: config.masqLinkLocal.value,
    masqLinkLocalIPv6: config.masqLinkLocalIPv6.value,
    resyncIntervalMs: config.resyncInterval?.value ?? null,
  };
}

function entryValue({ value, origin }: Located<Prefix>) {
  return { cidr: value.text, origin: placeValue(origin) };
}

function addressValue({ value: { destination, range }, origin }: Located<MasqueradeAddress>) {
  return { destination: destination.text, address: range.text, origin: placeValue(origin) };
}

/** A place as plain values. A file as a whole has the same keys as a place in it, so that programs need not ask. */
export function placeValue(at: Problem['at']) {
  if (at === undefined) return null;
  if (at.kind === 'built-in') return { builtIn: at.reason };
  const [line, column] = at.kind === 'file' ? [at.line, at.column] : [null, null];
  return { source: at.source, file: fileOf(at), line, column };
}
