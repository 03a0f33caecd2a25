import type { MergedConfig } from '../config/config.ts';
import type { InvalidConfigError } from '../config/invalid-config.ts';

/** A hash of the merged config without its places: equal on all nodes whose merged config is equal. */
export function configHash(config: MergedConfig): string {
  const { sources, conflicts, ...keys } = config;
  const { nonMasqueradeCIDRs, masqueradeCIDRs, masqueradeFromCIDRs, masqueradeAddresses, ...settings } = keys;
  const { masqLinkLocal, masqLinkLocalIPv6, resyncInterval, ...others } = settings;
  // A new key of the config must be hashed too.
  others satisfies Record<string, never>;
  const values = [
    nonMasqueradeCIDRs.map(({ value }) => value.text),
    masqueradeCIDRs.map(({ value }) => value.text),
    masqLinkLocal.value,
    masqLinkLocalIPv6.value,
    resyncInterval?.value,
    // Without them, the hash is that of versions that do not know the keys.
    ...(masqueradeFromCIDRs.length > 0 ? [masqueradeFromCIDRs.map(({ value }) => value.text)] : []),
    ...(masqueradeAddresses.length > 0
      ? [masqueradeAddresses.map(({ value: { destination, range } }) => [destination.text, range.text])]
      : []),
  ];
  return hashOf(values);
}

/** A hash of what is wrong with a config: equal on all nodes that refuse the same texts for the same reasons. */
export function refusedHash({ problems, sources }: InvalidConfigError): string {
  return hashOf([sources.map(({ name, text }) => [name, text]), problems.map(({ message }) => message)]);
}

function hashOf(values: unknown): string {
  // Loaded at the first use, after the first sync, because it takes 3 ms.
  const { createHash } = process.getBuiltinModule('node:crypto');
  return createHash('sha256').update(JSON.stringify(values)).digest('hex').slice(0, 12);
}
