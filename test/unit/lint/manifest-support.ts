export const HOST_BITS =
  'error: "10.0.0.1/8" is no network address: bits after /8 are set; write 10.0.0.0/8 for the whole network, or 10.0.0.1/32 for this one address';

/** A ConfigMap in block style with `data` of these lines. */
export function configMap(...data: readonly string[]): string {
  return [
    'apiVersion: v1',
    'kind: ConfigMap',
    'metadata:',
    '  name: ip-masq',
    'data:',
    ...data.map((line) => `  ${line}`),
    '',
  ].join('\n');
}

export const CONFIG_MAP = configMap('ip-masq-a: |', '  nonMasqueradeCIDRs:', '    - ‸10.0.0.1/8');

/** A name, a text with a mark before each place of which something is said, and what is said, from top to bottom. */
export type Case = readonly [name: string, text: string, ...said: readonly string[]];
