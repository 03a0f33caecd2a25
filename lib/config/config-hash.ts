import type { MergedConfig } from './config.ts';
import type { InvalidConfigError } from './invalid-config.ts';
import { KEYS } from './keys.ts';

/** A hash of the merged config without its origins: equal on all nodes whose merged config is equal. */
export function configHash(config: MergedConfig): string {
  const set = KEYS.filter(({ setAt }) => setAt(config) !== undefined);
  return hashOf(set.map((key) => [key.name, key.plainValue(config)]));
}

/** A hash of what is wrong with a config: equal on all nodes that refuse the same texts for the same reasons. */
export function refusedHash({ problems, configFiles }: InvalidConfigError): string {
  return hashOf([configFiles.map(({ name, text }) => [name, text]), problems.map(({ message }) => message)]);
}

function hashOf(values: unknown): string {
  // Loaded at the first use, after the first sync, because it takes 3 ms.
  const { createHash } = process.getBuiltinModule('node:crypto');
  return createHash('sha256').update(JSON.stringify(values)).digest('hex').slice(0, 12);
}
