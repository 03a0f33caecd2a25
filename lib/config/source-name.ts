/** How the names of sources begin. */
const SOURCE_PREFIX = 'ip-masq-';

/** ip-masq-agent-v2 also reads files that begin so: they may well be meant for us. */
export const NEAR_PREFIX = 'ip-masq';

/** Whether a file of that name is a source. */
export function isSourceName(name: string): boolean {
  return name.startsWith(SOURCE_PREFIX);
}

/** Whether a file of that name may well be meant for a source. */
export function isNearMiss(name: string): boolean {
  return name.startsWith(NEAR_PREFIX) && !isSourceName(name);
}

/** What is wrong with a near miss: the end of a sentence. */
export const nearMissMessage = `is not read: the name of a source begins with ${SOURCE_PREFIX}`;
