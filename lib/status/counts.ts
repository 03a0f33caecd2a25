import type { Round } from '../agent/loop.ts';
import type { EntryCount } from '../dataplane/dataplane.ts';
import type { Family } from '../policy/policy.ts';
import type { Origin } from '../text/origin.ts';
import type { Metrics } from './registry.ts';

/** Adds what a round has done to the counters. Those that begin with zero are there at once, or rate() misses the first event. */
export function countRound(metrics: Metrics, { retries, syncs, trigger, inSync, latency }: Round): void {
  for (const reason of ['busy', 'raced', 'exhausted'] as const)
    metrics.add('sync_retries_total', { reason }, retries.filter((failure) => failure === reason).length);
  for (const { family, found, drifted } of syncs) {
    for (const result of ['changed', 'unchanged']) metrics.add('syncs_total', { family, result }, 0);
    for (const program of PROGRAMS) metrics.add('drift_repairs_total', { family, program }, 0);
    // A round for an event of the kernel that finds no difference is not counted: other programs decide how many there are.
    if (found === undefined && (!inSync || trigger.reason === 'kernel')) continue;
    metrics.add('syncs_total', { family, result: found === undefined ? 'unchanged' : 'changed' });
    if (!inSync) continue;
    const seconds = latency / 1000;
    metrics.observe('sync_duration_seconds', { family }, seconds);
    if (found && trigger.reason === 'change') metrics.observe('reaction_duration_seconds', {}, seconds);
    if (drifted) metrics.add('drift_repairs_total', { family, program: programLabel(trigger.by) });
  }
}

const PROGRAMS = ['iptables', 'iptables-restore', 'nft', 'other', 'several', 'unknown'] as const;

/** The label for programs, of which the kernel tells the first 15 characters of the name. */
function programLabel([first, ...more]: readonly string[] = []): (typeof PROGRAMS)[number] {
  if (first === undefined) return 'unknown';
  if (more.length > 0) return 'several';
  const name = first.replace(/^ip6?tables(?:-nft)?(?:-(r).*)?$/, (_, restore) =>
    restore === undefined ? 'iptables' : 'iptables-restore',
  );
  return PROGRAMS.slice(0, 3).find((one) => one === name) ?? 'other';
}

const COUNTED = [
  'masqueraded_connections_total',
  'not_masqueraded_connections_total',
  'connections_from_elsewhere_total',
  'invalid_packets_total',
] as const;

/** Shows the counts of the kernel as they are. */
export function setPacketCounts(metrics: Metrics, counts: ReadonlyMap<Family, readonly EntryCount[]>): void {
  for (const name of COUNTED) metrics.clear(name);
  for (const [family, some] of counts)
    for (const { entry, countedAs, packets } of some) {
      const count = Number(packets);
      const file = entry && originName(entry.origin);
      if (countedAs === 'masqueraded') metrics.add('masqueraded_connections_total', { family }, count);
      else if (countedAs === 'invalid') metrics.add('invalid_packets_total', { family }, count);
      else if (file === undefined) metrics.add('connections_from_elsewhere_total', { family }, count);
      else metrics.add('not_masqueraded_connections_total', { family, file }, count);
    }
}

/** The config file of an origin, or what a default follows, such as `RFC 3927`. */
function originName(origin: Origin): string {
  return origin.kind === 'file' ? origin.configFile : origin.basis;
}
