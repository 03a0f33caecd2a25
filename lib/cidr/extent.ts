import IPCIDR from 'ip-cidr';
import { formatAddress } from './address.ts';
import type { Prefix } from './prefix.ts';

/** The addresses of a prefix, as people read them. */
interface Extent {
  /** The canonical text (IPv6: RFC 5952), as for `last`. */
  readonly first: string;
  readonly last: string;
  readonly size: bigint;
}

/** The first and last address of a prefix, and its size. Slow: use it only for output to people. */
export function extent({ family, text }: Prefix): Extent {
  const cidr = new IPCIDR(text);
  const [first, last] = cidr.toRange<bigint>({ type: 'bigInteger' });
  return {
    first: formatAddress({ family, value: first }),
    last: formatAddress({ family, value: last }),
    size: cidr.size.valueOf(),
  };
}
