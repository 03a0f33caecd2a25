/** A number with its noun: `1 rule`, `2 rules`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** The number of IPv4 addresses. Larger numbers are easier to read as a power of two. */
const LARGEST_COUNT = 1n << 32n;

/** A number of addresses: `1 address`, `65,536 addresses`, `2^120 addresses`, `more than 2^120 addresses`. */
export function countedAddresses(count: bigint): string {
  if (count === 1n) return '1 address';
  if (count <= LARGEST_COUNT) return `${count.toLocaleString('en-US')} addresses`;
  const power = count.toString(2).length - 1;
  return `${count === 1n << BigInt(power) ? '' : 'more than '}2^${power} addresses`;
}
