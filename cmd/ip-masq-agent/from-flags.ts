import type { ReaderOptions } from '../../lib/agent/reading.ts';
import type { RetryOptions } from '../../lib/agent/retry.ts';
import type { NodeAccess } from '../../lib/agent/rule-locations.ts';
import { FAMILIES, type Family } from '../../lib/cidr/address.ts';
import type { ConfigOptions } from '../../lib/config/config.ts';
import type { Problem } from '../../lib/config/problem.ts';
import { type Host, systemHost } from '../../lib/dataplane/host.ts';
import { Netlink, ownSockets } from '../../lib/dataplane/netlink.ts';
import type { DataplaneOptions } from '../../lib/dataplane/options.ts';
import { TAKEN_PORTS, takenAdvice } from '../../lib/dataplane/ports.ts';
import { podRoutes } from '../../lib/node/pod-routes.ts';
import { checksOf, type GivenAssertion } from '../../lib/policy/checks.ts';
import { type FindPods, masqueradedPodRoutes } from '../../lib/policy/masqueraded-pod-routes.ts';
import type { Verdict } from '../../lib/policy/policy.ts';
import type { FlagValues } from './flags.ts';
import { complain } from './print.ts';
import { stopSignal } from './signals.ts';

export function keptFamilies(flags: FlagValues): readonly Family[] {
  const kept = { IPv4: flags['enable-ipv4'], IPv6: flags['enable-ipv6'] };
  return FAMILIES.filter((family) => kept[family]);
}

export function configOptions(flags: FlagValues): ConfigOptions {
  const families = keptFamilies(flags);
  return {
    families,
    cidrLimit: flags['cidr-limit'],
    cidrLimitMax: flags['cidr-limit-max'],
    strict: flags.strict,
    noMasqAllReservedRanges: flags['nomasq-all-reserved-ranges'],
    requiredFiles: flags['require-file'],
    checkVerdicts: (...config) => [
      ...checksOf(families, assertionsOf(flags), flags['invalid-packets'] === 'drop')(...config),
      ...takenPorts(flags),
    ],
  };
}

/** WireGuard is on few nodes: the doctor asks the links. */
function takenPorts(flags: FlagValues): readonly Omit<Problem, 'severity'>[] {
  const advice = takenAdvice(
    flags['to-ports'],
    TAKEN_PORTS.filter(({ link }) => link !== 'wireguard'),
  );
  return advice === undefined ? [] : [{ kind: 'taken-ports', ...advice }];
}

function assertionsOf(flags: FlagValues): readonly GivenAssertion[] {
  const given = (flag: 'must-not-masquerade' | 'must-masquerade', verdict: Verdict) =>
    flags[flag].map((one) => ({ ...one, flag, verdict }));
  return [...given('must-not-masquerade', 'not_masqueraded'), ...given('must-masquerade', 'masqueraded')];
}

export function dataplaneOptions(flags: FlagValues): DataplaneOptions {
  return {
    backend: flags.backend,
    mode: flags['iptables-mode'],
    families: keptFamilies(flags),
    chain: flags['masq-chain'],
    randomFully: flags['random-fully'],
    toPorts: flags['to-ports'],
    invalidPackets: flags['invalid-packets'],
    // Each CIDR ends at most two ranges; the rest is for what is built in, and for each port range.
    mostObjects: 4 * flags['cidr-limit-max'] * (1 + flags['to-ports'].length) + 1_000,
  };
}

export function readerOptions(flags: FlagValues): ReaderOptions {
  return {
    configDir: flags['config-dir'],
    config: configOptions(flags),
    resyncInterval: flags['resync-interval'],
  };
}

/** Whether it works goes neither to the log nor to the metrics: what could not be read tells it. */
export function silentNetlink(): Netlink {
  return new Netlink(ownSockets, () => {});
}

/** The machine, for as long as the process lives: its netlink is not closed. */
export function silentHost(flags: FlagValues): Host {
  return systemHost(flags['sync-timeout'], silentNetlink());
}

/** Finds the routes to pods that policies masquerade. It fails with NetlinkError if routes cannot be read. */
export function podFinder(flags: FlagValues): FindPods {
  return async (policies, configFiles) => {
    const routes = await podRoutes(policies.map(({ family }) => family));
    return policies.flatMap((one) =>
      masqueradedPodRoutes(one, routes, flags['accept-masqueraded'], configFiles),
    );
  };
}

/** What a one-shot command reads the agent's rules with. */
export function nodeAccess(flags: FlagValues): NodeAccess {
  return { dataplane: dataplaneOptions(flags), host: silentHost(flags), retry: retryOptions(flags) };
}

/** How a one-shot command waits for a busy kernel. */
export function retryOptions(flags: FlagValues): RetryOptions {
  return {
    timeoutMs: flags['sync-timeout'],
    signal: stopSignal,
    onRetry: ({ message }) => complain(`trying again: ${message}`),
  };
}
