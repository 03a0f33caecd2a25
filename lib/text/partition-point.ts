/**
 * How many items come before all others (binary search).
 *
 * @param comesBefore true of the first items, false of the rest
 */
export function partitionPoint<Item>(items: ArrayLike<Item>, comesBefore: (item: Item) => boolean): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (comesBefore(items[middle] as Item)) low = middle + 1;
    else high = middle;
  }
  return low;
}
