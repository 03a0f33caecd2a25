import type { LastValid } from '../../../lib/agent/load.ts';
import type { Sync } from '../../../lib/agent/loop.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { nodeIdentity } from '../../../lib/node/identity.ts';
import type { LastValidStore } from '../../../lib/state/last-valid.ts';
import type { Recorder } from '../../../lib/status/recorder.ts';
import { printable } from '../../../lib/text/escape.ts';
import type { FlagValues } from '../flags.ts';

export interface LastValidKeeper {
  read(): Promise<LastValid | undefined>;
  /** Keeps the config of a sync for the next run, if the kernel was found to hold its rules. */
  keep(sync: Sync): Promise<void>;
}

/** Where the last valid config outlives the process; undefined if --state-dir names no directory. */
export function lastValidOf(flags: FlagValues, log: Logger, recorder: Recorder): LastValidKeeper | undefined {
  const dir = flags['state-dir'];
  if (dir === '') return undefined;
  let opened: LastValidStore | undefined;
  const open = async () => {
    const { LastValidStore } = await import('../../../lib/state/last-valid.ts');
    opened ??= new LastValidStore(dir, nodeIdentity(), flags['config-limit'], log);
    return opened;
  };
  return {
    read: async () => await (await open()).read(),
    async keep({ configFiles, inSync }) {
      if (!inSync) return;
      const isKept = await (await open()).keep(configFiles);
      recorder.record((metrics) => metrics.set('last_valid_config_kept', {}, isKept ? 1 : 0));
    },
  };
}

/**
 * Removes the last valid config from the directory of --state-dir.
 *
 * @returns what it has removed, in words; undefined if there was nothing
 * @throws {SystemError}
 */
export async function forgetLastValid({ 'state-dir': dir }: FlagValues): Promise<string | undefined> {
  if (dir === '') return undefined;
  const { removeLastValid } = await import('../../../lib/state/write-state.ts');
  return (await removeLastValid(dir)) ? `removed the last valid config from ${printable(dir)}` : undefined;
}
