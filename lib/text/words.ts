/** A number with its noun: `1 rule`, `2 rules`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/**
 * The first of a list as texts, and a last one that says how many more there are.
 *
 * @param textOf one text or several for each item
 */
export function truncated<Item>(
  items: readonly Item[],
  most: number,
  textOf: (item: Item) => string | readonly string[],
  restText = (more: number) => `… and ${more} more`,
): readonly string[] {
  const more = items.length - most;
  return [...items.slice(0, most).flatMap(textOf), ...(more > 0 ? [restText(more)] : [])];
}

/** The same in a sentence: `a, b and 3 more`. */
export function truncatedText<Item>(
  items: readonly Item[],
  most: number,
  textOf: (item: Item) => string,
  restText = (more: number) => `${more} more`,
): string {
  const more = items.length - most;
  const shown = items.slice(0, most).map(textOf).join(', ');
  return `${shown}${more > 0 ? ` and ${restText(more)}` : ''}`;
}

/** The number of IPv4 addresses. Larger numbers are easier to read as a power of two. */
const LARGEST_COUNT = 1n << 32n;

/** Intl would load the languages of ICU, into the agent too. */
function withCommas(count: bigint): string {
  return `${count}`.replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

/** A number of addresses: `1 address`, `65,536 addresses`, `2^120 addresses`, `more than 2^120 addresses`. */
export function countedAddresses(count: bigint): string {
  if (count === 1n) return '1 address';
  if (count <= LARGEST_COUNT) return `${withCommas(count)} addresses`;
  const power = count.toString(2).length - 1;
  return `${count === 1n << BigInt(power) ? '' : 'more than '}2^${power} addresses`;
}
