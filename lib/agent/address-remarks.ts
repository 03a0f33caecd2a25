import { formatAddress } from '../cidr/address.ts';
import type { Remark } from '../config/problem.ts';
import { type AddressRequest, addressRequests, bestAddresses, type Policy } from '../policy/policy.ts';
import { truncatedText } from '../text/words.ts';

/** The most addresses that are named one by one. */
const MOST = 10;

/** Each range that does not hold exactly one best address of the node. */
export function addressRemarks(policies: readonly Policy[]): readonly Remark[] {
  return policies.flatMap(addressRequests).flatMap((one) => remarkOn(one) ?? []);
}

/** Which addresses the node has in the range, and what to do; undefined if it is exactly one. */
function remarkOn(address: AddressRequest): Remark | undefined {
  const { range, origin: at } = address;
  const best = bestAddresses(address);
  if (best.length === 1) return undefined;
  if (best.length === 0)
    return {
      at,
      message: `this node has no address in ${range.text}: the kernel chooses the address of the packets that should leave with one of this range`,
      remedy: 'give a link that is up such an address, or correct masqueradeAddresses',
    };
  return {
    at,
    message: `this node has several equally good addresses in ${range.text}, and the agent uses the lowest: ${truncatedText(best, MOST, formatAddress)}`,
    remedy: 'make the range smaller, so that it holds no address that comes and goes',
  };
}
