import { formatAddress } from '../cidr/address.ts';
import { formatRemark, type Remark } from '../config/problem.ts';
import type { Logger } from '../log/log.ts';
import { type AddressRequest, addressRequests, bestAddresses, type Policy } from '../policy/policy.ts';
import { counted, truncatedText } from '../text/words.ts';

/** The most ranges and the most addresses that are named one by one. */
const MOST = 10;

/** Tells of each range that does not hold exactly one best address of the node, and when that changes. */
export function logAddresses(log: Logger, before: readonly Policy[], after: readonly Policy[]): void {
  const known = new Map(
    before.flatMap(addressRequests).map((one) => [one.range.text, remarkOn(one).message]),
  );
  const changed = after
    .flatMap(addressRequests)
    .filter((one) => remarkOn(one).message !== known.get(one.range.text))
    .filter((one) => !isFine(one) || known.has(one.range.text));
  for (const one of changed.slice(0, MOST)) {
    if (isFine(one)) log.info(remarkOn(one).message);
    else log.warn(formatRemark(remarkOn(one)));
  }
  if (changed.length > MOST)
    log.warn(`the addresses in ${counted(changed.length - MOST, 'more range')} have changed`);
}

/** Each range that does not hold exactly one best address of the node, at most a few, and then a count of the others. */
export function addressRemarks(policies: readonly Policy[]): readonly Remark[] {
  const all = policies.flatMap(addressRequests).filter((one) => !isFine(one));
  const more = all.length - MOST;
  const named = all.slice(0, MOST).map(remarkOn);
  if (more <= 0) return named;
  const message = `this node has no address, or several, in ${counted(more, 'more range')}`;
  return [...named, { message, remedy: 'resolve those that are named, then run it again' }];
}

function isFine(address: AddressRequest): boolean {
  return bestAddresses(address).length === 1;
}

/** Which addresses the node has in the range, and what to do if it is not exactly one. */
function remarkOn(address: AddressRequest): Remark {
  const { range, origin: at } = address;
  const best = bestAddresses(address);
  const [first, ...others] = best;
  if (first === undefined)
    return {
      at,
      message: `this node has no address in ${range.text}: the kernel chooses the address of the packets that are to leave with it`,
      remedy: 'give a link that is up such an address, or correct masqueradeAddresses',
    };
  const message = `this node's address in ${range.text} is ${formatAddress(first)}`;
  if (others.length === 0) return { at, message, remedy: 'nothing to do' };
  return {
    at,
    message: `this node has several addresses in ${range.text} that are equally good, of which the lowest is used: ${truncatedText(best, MOST, formatAddress)}`,
    remedy: 'make the range smaller, so that no address that comes and goes is in it',
  };
}
