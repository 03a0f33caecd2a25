import { formatAddress } from '../cidr/address.ts';
import type { Logger } from '../log/log.ts';
import { type NodeAddress, nodeAddresses, type Policy } from '../policy/policy.ts';
import { formatOrigin, type Origin } from '../text/origin.ts';
import { counted, fewInSentence } from '../text/words.ts';

/** The most ranges and the most addresses that are named one by one. */
const MOST = 10;

/** Tells of each range that does not hold exactly one address of the node, and when that changes. */
export function logAddresses(log: Logger, before: readonly Policy[], after: readonly Policy[]): void {
  const known = new Map(before.flatMap(nodeAddresses).map((one) => [one.range.text, describe(one).message]));
  const changed = after
    .flatMap(nodeAddresses)
    .filter((one) => describe(one).message !== known.get(one.range.text))
    .filter(({ range, found = [] }) => found.length !== 1 || known.has(range.text));
  for (const one of changed.slice(0, MOST)) {
    const { message, remedy } = describe(one);
    if (remedy === undefined) log.info(message);
    else log.warn(`${formatOrigin(one.origin)}: ${message}; ${remedy}`);
  }
  if (changed.length > MOST)
    log.warn(`the addresses in ${counted(changed.length - MOST, 'more range')} have changed`);
}

/** What is wrong with the addresses of the node. */
interface AddressProblem {
  readonly message: string;
  readonly remedy: string;
  /** Undefined for what stands for several ranges. */
  readonly origin?: Origin;
}

/** Each range that does not hold exactly one address of the node, at most a few, and then a count of the others. */
export function addressProblems(policies: readonly Policy[]): readonly AddressProblem[] {
  const all = policies.flatMap(nodeAddresses).flatMap((one): readonly AddressProblem[] => {
    const { message, remedy } = describe(one);
    return remedy === undefined ? [] : [{ origin: one.origin, message, remedy }];
  });
  const more = all.length - MOST;
  if (more <= 0) return all;
  const message = `this node has no address, or several, in ${counted(more, 'more range')}`;
  return [...all.slice(0, MOST), { message, remedy: 'resolve those that are named, then look again' }];
}

/** Which addresses the node has in the range, and what to do if it is not exactly one. */
function describe({ range, found = [] }: NodeAddress): {
  readonly message: string;
  readonly remedy: string | undefined;
} {
  const texts = found.map(formatAddress);
  if (texts.length === 0) {
    return {
      message: `this node has no address in ${range.text}: the kernel chooses the address of the packets that are to leave with it`,
      remedy: 'give a link that is up such an address, or correct masqueradeAddresses',
    };
  }
  if (texts.length === 1)
    return { message: `this node's address in ${range.text} is ${texts[0]}`, remedy: undefined };
  return {
    message: `this node has several addresses in ${range.text}, of which the lowest is used: ${fewInSentence(found, MOST, formatAddress)}`,
    remedy: 'make the range smaller if another one is meant',
  };
}
