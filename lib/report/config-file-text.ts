import type { Family } from '../cidr/address.ts';
import type { MergedConfig } from '../config/config.ts';
import { commentText } from '../config/config-file-lines.ts';
import { CIDR_LIMIT_KEY, KEYS, LIMITED_KEYS } from '../config/keys.ts';
import { DEFAULT_LIMITS } from '../config/limits.ts';
import { printable } from '../text/escape.ts';

/**
 * A merged config as one config file for programs that read a single file: YAML, order and exceptions kept, each value with
 * its origin as a comment. The same config gives the same bytes.
 *
 * @param families keys of others are left out: not every reader knows those of IPv6
 */
export function configFileText(config: MergedConfig, families: readonly Family[]): string {
  const names = config.configFileNames.map((name) => commentText(printable(name)));
  const keys = KEYS.filter(
    ({ family, isAlwaysWritten, setAt }) =>
      (family === undefined || families.includes(family)) && (isAlwaysWritten || setAt(config) !== undefined),
  );
  const count = LIMITED_KEYS.reduce((sum, name) => sum + config[name].length, 0);
  const lines = [
    `# Merged by ip-masq-agent from ${names.join(', ') || 'its defaults'}`,
    ...keys.flatMap((key) => key.lines(config)),
    ...(count > DEFAULT_LIMITS.cidrLimit ? [`${CIDR_LIMIT_KEY.name}: ${count}`] : []),
  ];
  return `${lines.join('\n')}\n`;
}
