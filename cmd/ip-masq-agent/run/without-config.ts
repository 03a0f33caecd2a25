import { hasOwnRules } from '../../../lib/agent/own-rules.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { installedDataplanes } from '../../../lib/dataplane/open.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions } from '../from-flags.ts';

/** Milliseconds for the look at the node that an invalid config causes. */
const LOOK_MS = 2_000;

/** Whether the node has rules of the agent; undefined if that cannot be told. */
export function findOwnRules(flags: FlagValues): Promise<boolean | undefined> {
  return hasOwnRules(() => installedDataplanes(dataplaneOptions(flags), systemHost(LOOK_MS)));
}

/** What an invalid config means for the node, as a clause. */
export async function whatStays(flags: FlagValues): Promise<string> {
  switch (await findOwnRules(flags)) {
    case true:
      return 'the rules on this node do not change';
    case false:
      return 'this node has no rules of the agent: the packets of its pods leave with the addresses of the pods, and most get no answer from outside';
    case undefined:
      return 'nothing on this node changes';
  }
}
