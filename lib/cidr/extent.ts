import IPCIDR from 'ip-cidr';
import { formatAddress } from './address.ts';
import type { Prefix } from './prefix.ts';

/** The addresses of a prefix, as people read them. */
export interface Extent {
  /** As RFC 5952 has it, as is `last`. */
  readonly first: string;
  readonly last: string;
  /** How many addresses there are. */
  readonly size: bigint;
}

/** From where to where a prefix reaches. Too slow for anything but what people read. */
export function extent({ family, text }: Prefix): Extent {
  const cidr = new IPCIDR(text);
  const [first, last] = cidr.toRange<bigint>({ type: 'bigInteger' });
  return {
    first: formatAddress({ family, value: first }),
    last: formatAddress({ family, value: last }),
    size: cidr.size.valueOf(),
  };
}
