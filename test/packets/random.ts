/** The same choices for the same seed. */
export interface Random {
  /** A whole number from `first` to `last`, both included. */
  int(first: number, last: number): number;
  /** So many random bits. */
  bits(count: number): bigint;
  chance(probability: number): boolean;
  pick<Item>(items: readonly [Item, ...Item[]]): Item;
}

/** The generator mulberry32: 32 bits of state are plenty for tests, and need no library. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const int = (first: number, last: number) => first + Math.floor((next() / 2 ** 32) * (last - first + 1));
  return {
    int,
    bits: (count) => {
      let value = 0n;
      for (let have = 0; have < count; have += 32) value = (value << 32n) | BigInt(next());
      return BigInt.asUintN(count, value);
    },
    chance: (probability) => next() / 2 ** 32 < probability,
    pick: (items) => items[int(0, items.length - 1)] ?? items[0],
  };
}
