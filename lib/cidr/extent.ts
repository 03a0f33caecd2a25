import { formatAddress } from './address.ts';
import type { Prefix } from './prefix.ts';
import { rangeOf } from './ranges.ts';

/** The addresses of a prefix, as people read them. */
interface Extent {
  /** The canonical text (IPv6: RFC 5952), as for `last`. */
  readonly first: string;
  readonly last: string;
  readonly size: bigint;
}

/** The first and last address of a prefix, and its size. */
export function extent(prefix: Prefix): Extent {
  const { family } = prefix;
  const { first, last } = rangeOf(prefix);
  return {
    first: formatAddress({ family, value: first }),
    last: formatAddress({ family, value: last }),
    size: last - first + 1n,
  };
}
