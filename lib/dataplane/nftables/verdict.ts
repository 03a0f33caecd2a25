import { type Address, parseAddress } from '../../cidr/address.ts';
import { parsePrefix } from '../../cidr/prefix.ts';
import { isIn, type Range, rangeOf } from '../../cidr/ranges.ts';
import type { KernelVerdict } from '../dataplane.ts';
import type { RuleOptions } from '../options.ts';
import { CHAIN, NFT_FAMILY, SET } from './names.ts';
import type { NftablesObservation } from './observe.ts';
import { renderTable } from './table.ts';

/** What the table does with packets to an address. */
export function kernelVerdict(
  { family, table }: NftablesObservation,
  options: RuleOptions,
  address: Address,
): KernelVerdict {
  if (table?.isOwn !== true || !table.shape.includes(`chain ${CHAIN} {`))
    return { state: 'no chain', verdict: 'return', rule: undefined };
  const { shape } = renderTable({ family, entries: [] }, options);
  const strange = table.shape.find((line) => !shape.includes(line));
  if (strange !== undefined || shape.length !== table.shape.length)
    return { state: 'changed', verdict: 'return', rule: strange };
  const element = [...table.elements.keys()].find((text) => holds(text, address));
  const rule = table.shape.find((line) =>
    element === undefined ? line.startsWith('counter masquerade') : line.includes(`@${SET} `),
  );
  const set = element === undefined ? '' : `, element ${element}`;
  return {
    state: 'applied',
    verdict: element === undefined ? 'masquerade' : 'return',
    rule: rule === undefined ? undefined : `${NFT_FAMILY[family].protocol} ${CHAIN}: ${rule}${set}`,
  };
}

function holds(element: string, { value }: Address): boolean {
  const range = rangeFrom(element);
  return range !== undefined && isIn(value, range);
}

/** A prefix, an address or a range, as nft(8) prints it. */
function rangeFrom(element: string): Range | undefined {
  const parsed = parsePrefix(element);
  if ('prefix' in parsed) return rangeOf(parsed.prefix);
  const [first, last] = element.split('-').map((text) => parseAddress(text)?.value);
  return first === undefined ? undefined : { first, last: last ?? first };
}
