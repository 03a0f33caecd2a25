import { createHash } from 'node:crypto';
import type { MergedConfig } from '../config/config.ts';

/** Equal for equal values, short whatever their size. */
export function fingerprint(value: unknown): string {
  const text = JSON.stringify(value, (_, item: unknown) => (typeof item === 'bigint' ? String(item) : item));
  return createHash('sha256').update(text).digest('base64');
}

/** Equal on all nodes whose merged config means the same, wherever in the files it stands. */
export function configHash(config: MergedConfig): string {
  const { nonMasqueradeCIDRs, masqueradeCIDRs, masqLinkLocal, masqLinkLocalIPv6, resyncInterval } = config;
  const values = [
    nonMasqueradeCIDRs.map(({ value }) => value.text),
    masqueradeCIDRs.map(({ value }) => value.text),
    masqLinkLocal.value,
    masqLinkLocalIPv6.value,
    resyncInterval?.value,
  ];
  return createHash('sha256').update(JSON.stringify(values)).digest('hex').slice(0, 12);
}
