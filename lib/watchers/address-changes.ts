import { setTimeout as delay } from 'node:timers/promises';
import { keepWatching } from '../agent/keep-watching.ts';
import type { Triggers } from '../agent/triggers.ts';
import type { Logger } from '../log/log.ts';
import { Notices } from '../log/notices.ts';
import { NetlinkError } from '../netlink/error.ts';
import { openAddressWatch } from '../netlink/watch.ts';
import { localKey, usableSourceAddresses } from '../node/own-addresses.ts';
import { areCompiledFor, type Policy } from '../policy/policy.ts';
import { SystemError } from '../text/error.ts';

/** Changes of so many milliseconds lead to one sync: each pod that starts changes links and addresses too. */
const PAUSE_MS = 100;

/** An address that comes and goes leads to rarer changes, until it stays for so long. */
const LONGEST_PAUSE_MS = 800;
const CALM_MS = 10_000;

/**
 * Triggers a sync when addresses of the node change that the policies ask for.
 *
 * @param onChange is called when any of its addresses changes
 * @returns takes the policies whose rules the kernel has now
 */
export function watchAddresses(
  triggers: Triggers,
  onChange: () => void,
  log: Logger,
  signal: AbortSignal,
): (policies: readonly Policy[]) => void {
  const notices = new Notices(log);
  let current: readonly Policy[] = [];
  let isWatching = false;
  let known: string | undefined;
  let pause = PAUSE_MS;
  let changedAt = Number.NEGATIVE_INFINITY;

  /** Whether the rules have the node's addresses; otherwise triggers a sync. */
  const check = (): boolean => {
    let isCurrent = false;
    try {
      const now = localKey();
      if (known !== undefined && known !== now) onChange();
      known = now;
      isCurrent = areCompiledFor(usableSourceAddresses(), current);
    } catch (error) {
      // The sync reads them again, and tells of a failure.
      if (!(error instanceof SystemError)) throw error;
    }
    if (!isCurrent) triggers.add('addresses');
    return isCurrent;
  };
  const onEvent = async (): Promise<void> => {
    await delay(pause, undefined, { signal });
    const now = performance.now();
    if (now - changedAt > CALM_MS) pause = PAUSE_MS;
    if (check()) return;
    pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    changedAt = now;
  };
  const watch = () =>
    keepWatching({
      open: openAddressWatch,
      onStart: check,
      onEvent,
      onFailure: (error) => {
        if (!(error instanceof NetlinkError)) throw error;
        const text = `cannot watch the node's addresses, changes wait for the resync: ${error.message}`;
        notices.updateWarnings([text]);
        return true;
      },
      interval: () => triggers.interval,
      signal,
    });

  return (policies) => {
    const areNew = policies !== current;
    current = policies;
    if (!areNew) return;
    // While they were applied, addresses may have changed.
    if (isWatching) check();
    else void watch();
    isWatching = true;
  };
}
