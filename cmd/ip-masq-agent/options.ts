import type { SourcesOptions } from '../../lib/agent/sources.ts';
import type { ConfigOptions } from '../../lib/config/config.ts';
import type { DataplaneOptions } from '../../lib/dataplane/open.ts';
import type { FlagValues } from './flags.ts';

/** What the flags say about reading and merging. */
export function configOptions(flags: FlagValues): ConfigOptions {
  return {
    enableIPv6: flags['enable-ipv6'],
    cidrLimit: flags['cidr-limit'],
    strict: flags.strict,
    noMasqAllReservedRanges: flags['nomasq-all-reserved-ranges'],
  };
}

/** What the flags say about the rules in the kernel. */
export function dataplaneOptions(flags: FlagValues): DataplaneOptions {
  return {
    backend: flags.backend,
    mode: flags['iptables-mode'],
    chain: flags['masq-chain'],
    randomFully: flags['random-fully'],
    toPorts: flags['to-ports'],
  };
}

/** What the flags say about following the sources. */
export function sourcesOptions(flags: FlagValues): SourcesOptions {
  return {
    configDir: flags['config-dir'],
    config: configOptions(flags),
    resyncInterval: flags['resync-interval'],
  };
}
