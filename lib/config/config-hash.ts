import type { MergedConfig } from './config.ts';
import { KEYS } from './keys.ts';

/** A hash of the merged config without its origins: equal on all nodes whose merged config is equal. */
export function configHash(config: MergedConfig): string {
  const set = KEYS.filter(({ setAt }) => setAt(config) !== undefined);
  const values = set.map((key) => [key.name, key.plainValue(config)]);
  // Loaded at the first use, after the first sync, because it takes 3 ms.
  const { createHash } = process.getBuiltinModule('node:crypto');
  return createHash('sha256').update(JSON.stringify(values)).digest('hex').slice(0, 12);
}
