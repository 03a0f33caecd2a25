import type { Leftover, Unread } from '../../../lib/agent/leftovers.ts';
import type { Preview } from '../../../lib/agent/preview.ts';
import type { Dataplane, KernelFates } from '../../../lib/dataplane/dataplane.ts';
import { together } from '../../../lib/dataplane/kernel-fates.ts';

/** What a sync would change in one family. */
export interface Difference {
  /** In the dataplane that is used. */
  readonly dataplane: Dataplane;
  readonly preview: Preview;
  /** Rules of the agent, or of ip-masq-agent v1 or v2, in the places that are not used: a start removes them. */
  readonly leftovers: readonly Leftover[];
  /** Empty chains that cannot be deleted, in words. */
  readonly stays: readonly string[];
  /** What could not be looked at. */
  readonly unread: readonly Unread[];
  /** What all these rules do with packets now; undefined if nothing changes in the kernel, or it cannot be read. */
  readonly now: KernelFates | undefined;
}

/** Whether a sync would change anything in the family. */
export function differs({ preview, leftovers }: Difference): boolean {
  return preview.plan !== undefined || leftovers.length > 0;
}

/** Puts together what was seen of one family. */
export function differenceOf(
  dataplane: Dataplane,
  preview: Preview,
  all: { readonly found: readonly Leftover[]; readonly unread: readonly Unread[] },
): Difference {
  const { family, observed, plan, policy, unreadable } = preview;
  const leftovers = all.found.filter((one) => one.family === family);
  const changes = plan !== undefined || leftovers.length > 0;
  const here = unreadable === undefined ? [] : [{ family, where: dataplane.name, error: unreadable }];
  return {
    dataplane,
    preview,
    leftovers,
    stays: observed?.stays?.(policy) ?? [],
    unread: [...here, ...all.unread.filter((one) => one.family === family)],
    now:
      observed && changes
        ? leftovers.map((one) => one.observed.fates()).reduce(together, observed.fates())
        : undefined,
  };
}
