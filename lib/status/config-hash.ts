import type { MergedConfig } from '../config/config.ts';

/** Equal on all nodes whose merged config means the same, wherever in the files it stands. */
export function configHash(config: MergedConfig): string {
  const { nonMasqueradeCIDRs, masqueradeCIDRs, masqLinkLocal, masqLinkLocalIPv6, resyncInterval } = config;
  // Loaded at the first use, when the rules are in the kernel: it takes 3 ms.
  const { createHash } = process.getBuiltinModule('node:crypto');
  const values = [
    nonMasqueradeCIDRs.map(({ value }) => value.text),
    masqueradeCIDRs.map(({ value }) => value.text),
    masqLinkLocal.value,
    masqLinkLocalIPv6.value,
    resyncInterval?.value,
  ];
  return createHash('sha256').update(JSON.stringify(values)).digest('hex').slice(0, 12);
}
