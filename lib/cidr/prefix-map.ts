import { ADDRESS_BITS, type Address } from './address.ts';
import type { Prefix } from './prefix.ts';

/** Values by prefix, found by longest match. A search takes one lookup for each prefix length in use. */
export class PrefixMap<Value> {
  /** By length and network: V8 hashes the lowest 64 bits of a bigint alone, which are 0 in the address of any IPv6 network. */
  readonly #byLength = {
    IPv4: new Map<number, Map<bigint, Value>>(),
    IPv6: new Map<number, Map<bigint, Value>>(),
  };

  get(prefix: Prefix): Value | undefined {
    return this.#byLength[prefix.family].get(prefix.length)?.get(networkOf(prefix, prefix.length));
  }

  set(prefix: Prefix, value: Value): void {
    const lengths = this.#byLength[prefix.family];
    const addresses = lengths.get(prefix.length) ?? new Map<bigint, Value>();
    lengths.set(prefix.length, addresses.set(networkOf(prefix, prefix.length), value));
  }

  /** The value of the longest prefix that holds the address. */
  longestMatch(address: Address): Value | undefined {
    const { family, value } = address;
    return this.#longest({ family, address: value }, ADDRESS_BITS[family]);
  }

  /** The value of the longest prefix that is shorter than this one and holds all of it. */
  nearestWider(prefix: Prefix): Value | undefined {
    return this.#longest(prefix, prefix.length - 1);
  }

  #longest(address: Network, longest: number): Value | undefined {
    let [best, length]: [Value | undefined, number] = [undefined, -1];
    for (const [other, networks] of this.#byLength[address.family]) {
      if (other > longest || other < length) continue;
      const found = networks.get(networkOf(address, other));
      if (found !== undefined) [best, length] = [found, other];
    }
    return best;
  }
}

type Network = Pick<Prefix, 'family' | 'address'>;

/** The first `length` bits of the address as a number. */
function networkOf({ family, address }: Network, length: number): bigint {
  return address >> BigInt(ADDRESS_BITS[family] - length);
}
