/** Not ready: not in sync for 5 s, until it has been for 5 s. */
const PATIENCE_MS = 5_000;

/** For how long the kernel does not hold the policies, or does again. Times are those of performance.now(). */
export interface OutOfSync {
  /** When the kernel was found not to hold them, after it had for a while. */
  readonly beganAt: number;
  /** Since when it does; undefined if it does not. */
  readonly endedAt: number | undefined;
  readonly why: string;
}

export const CALM: OutOfSync = {
  beganAt: Number.POSITIVE_INFINITY,
  endedAt: Number.NEGATIVE_INFINITY,
  why: '',
};

/** The kernel does not hold the policies, or that cannot be told. */
export function foundOutOfSync(before: OutOfSync, why: string, at: number): OutOfSync {
  const isNew = at - (before.endedAt ?? at) >= PATIENCE_MS;
  return { beganAt: isNew ? at : Math.min(before.beganAt, at), endedAt: undefined, why };
}

/**
 * The kernel holds the policies.
 *
 * @param why what had changed the rules; undefined if nothing had
 */
export function foundInSync(before: OutOfSync, why: string | undefined, at: number): OutOfSync {
  const { beganAt, endedAt = at, ...more } = why === undefined ? before : foundOutOfSync(before, why, at);
  const isForgotten = why === undefined && at - beganAt < PATIENCE_MS;
  return { ...more, beganAt: isForgotten ? Number.POSITIVE_INFINITY : beganAt, endedAt };
}

/** Why traffic cannot rely on the rules; undefined if it can. */
export function unreadyReason({ beganAt, endedAt, why }: OutOfSync, at: number): string | undefined {
  const until = endedAt ?? at;
  return until - beganAt >= PATIENCE_MS && at - until < PATIENCE_MS ? why : undefined;
}
