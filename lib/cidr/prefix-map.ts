import { ADDRESS_BITS, type Address } from './address.ts';
import { type Prefix, truncate } from './prefix.ts';

/** Values by prefix, found by longest match. A search takes one lookup for each prefix length in use. */
export class PrefixMap<Value> {
  readonly #byLength = {
    IPv4: new Map<number, Map<bigint, Value>>(),
    IPv6: new Map<number, Map<bigint, Value>>(),
  };

  get(prefix: Prefix): Value | undefined {
    return this.#byLength[prefix.family].get(prefix.length)?.get(prefix.address);
  }

  set(prefix: Prefix, value: Value): void {
    const lengths = this.#byLength[prefix.family];
    const addresses = lengths.get(prefix.length) ?? new Map<bigint, Value>();
    lengths.set(prefix.length, addresses.set(prefix.address, value));
  }

  /** The value of the longest prefix that holds the address. */
  longestMatch(address: Address): Value | undefined {
    return this.#longest(address, ADDRESS_BITS[address.family]);
  }

  /** The value of the longest prefix that is shorter than this one and holds it. */
  nearestAround({ family, address, length }: Prefix): Value | undefined {
    return this.#longest({ family, value: address }, length - 1);
  }

  #longest({ family, value }: Address, longest: number): Value | undefined {
    const lengths = this.#byLength[family];
    for (let length = longest; length >= 0; length -= 1) {
      const found = lengths.get(length)?.get(truncate(value, length, family));
      if (found !== undefined) return found;
    }
    return undefined;
  }
}
