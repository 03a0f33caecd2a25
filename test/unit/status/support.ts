import { buildInfo } from '../../../cmd/ip-masq-agent/build-info.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import type { VerdictChanges } from '../../../lib/policy/changes.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { StatusObserver } from '../../../lib/status/observer.ts';
import { PacketCounts } from '../../../lib/status/packet-counts.ts';
import { Recorder } from '../../../lib/status/recorder.ts';
import type { Status } from '../../../lib/status/status.ts';
import { statusPage } from '../../../lib/status/status-page.ts';
import { loadedOf } from '../config/support.ts';

export function createStatus(): StatusObserver {
  return new StatusObserver(new Recorder(), buildInfo());
}

/** Tells the status of a config that was loaded and brought into the kernel, for IPv4. */
export function sync(status: StatusObserver, config: MergedConfig, verdicts?: VerdictChanges): void {
  status.onLoad(loadedOf(config, config.problems));
  const policy = compilePolicy(config, 'IPv4');
  const trigger = { reason: 'start', since: 0 } as const;
  status.onSync({ policy, plan: undefined, verdicts, drifted: false, trigger, duration: 0 });
}

export function pageOf(status: Status, counts = new PacketCounts()): string {
  const interval = () => status.loaded?.config?.resyncInterval?.value ?? 30_000;
  const about = { families: ['IPv4'], interval, version: 'ip-masq-agent 1.2.3', node: 'node-1' } as const;
  return statusPage({ status, counts, ...about });
}
