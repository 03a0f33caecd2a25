import { sizeOf } from '../cidr/ranges.ts';
import type { MergedConfig } from '../config/config.ts';
import { configHash } from '../config/config-hash.ts';
import { notMasqueradedDestinations } from '../policy/flatten.ts';
import { compilePolicy, type Family } from '../policy/policy.ts';
import { counted, countedAddresses } from '../text/words.ts';
import { configFileText } from './config-file-text.ts';
import type { CheckReport } from './report.ts';

/** The merged config and its size; empty if there is an error. */
export function mergedText({ config }: Pick<CheckReport, 'config'>, families: readonly Family[]): string {
  if (config === undefined) return '';
  const configFile = configFileText(config, families);
  const sizes = families.map((family) => `${sizeLine(config, family)}\n`);
  return `${configFile}\n${sizes.join('')}config hash ${configHash(config)}, without flags: nodes with equal hashes have an equal config, not always equal rules\n`;
}

/** The number of addresses that are not masqueraded. An address in several entries counts once, exceptions do not. */
function sizeLine(config: MergedConfig, family: Family): string {
  const set = notMasqueradedDestinations(compilePolicy(config, family));
  const size = sizeOf(set.ranges);
  const are = size === 1n ? 'is' : 'are';
  return `${family}: ${counted(set.ranges.length, 'range')}, ${countedAddresses(size)} ${are} not masqueraded`;
}
