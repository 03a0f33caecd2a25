import type { ClusterOptions } from './options.ts';

export const PROXY_MODES = ['iptables', 'nftables'] as const;
export const FAMILIES = ['ipv4', 'dual', 'ipv6'] as const;

/** What the user chose in the environment. */
export function parametersFrom(
  env: Readonly<Record<string, string | undefined>>,
): Pick<ClusterOptions, 'proxyMode' | 'families'> {
  return {
    proxyMode: oneOf('PROXY_MODE', env['PROXY_MODE'] || PROXY_MODES[0], PROXY_MODES),
    families: oneOf('FAMILIES', env['FAMILIES'] || FAMILIES[0], FAMILIES),
  };
}

function oneOf<Value extends string>(name: string, text: string, values: readonly Value[]): Value {
  const value = values.find((candidate) => candidate === text);
  if (value === undefined) throw new Error(`${name}=${text} is unknown: set one of ${values.join(', ')}`);
  return value;
}
