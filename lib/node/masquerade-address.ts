import { ADDRESS_BITS, type Address, type Family, formatAddress } from '../cidr/address.ts';
import { prefixAt } from '../cidr/prefix.ts';
import { complement, meetsSome, rangeOf, rangeSet } from '../cidr/ranges.ts';
import { allAddresses, type InterfaceAddress } from '../netlink/addresses.ts';
import { NetlinkError } from '../netlink/error.ts';
import { allLinks, type Link } from '../netlink/links.ts';
import { RT_TABLE_MAIN, sourceTo, type UnicastRoute, unicastRoutes } from '../netlink/routes.ts';
import { allowedSources, flatten } from '../policy/flatten.ts';
import type { Policy } from '../policy/policy.ts';
import { truncatedText } from '../text/words.ts';
import { podLinks } from './pod-routes.ts';

/** What becomes of masqueraded packets if no link has an address for them. */
const NO_ADDRESS = {
  IPv4: ', which has no address for it: the kernel drops it',
  IPv6: ' with a link-local address, which no router forwards',
} as const;

/**
 * With which address the kernel lets a masqueraded packet to an address leave by the links of a route, in words.
 *
 * @param mark of the packet
 */
export async function masqueradedText(
  to: Address,
  route: Pick<UnicastRoute, 'links' | 'gateway' | 'source'>,
  mark: number,
): Promise<string> {
  const all = allAddresses();
  const texts: string[] = [];
  for (const link of route.links)
    texts.push(...linkTexts(link, await candidates(to, route, { link, mark }, all)));
  return withText(to.family, texts);
}

function linkTexts(link: number, found: readonly InterfaceAddress[]): readonly string[] {
  const [first] = found;
  if (first === undefined) return [];
  const some = truncatedText(found, MOST_SHOWN, formatAddress);
  return [`${found.length === 1 ? some : `one of ${some}`}${first.link === link ? '' : ' of another link'}`];
}

function withText(family: Family, texts: readonly string[]): string {
  return texts.length === 0 ? NO_ADDRESS[family] : ` with ${texts.join(' or ')}`;
}

const MOST_SHOWN = 5;

/**
 * The addresses of which a masqueraded packet gets one: of the link if it has any, else of another link. Of those of IPv4 on the link,
 * the kernel takes the one that is near to where packets go next (inet_select_addr). Otherwise it is asked with which address it sends
 * itself, unless the route says that: masquerading does not follow the route there.
 */
async function candidates(
  { family, value }: Address,
  route: Pick<UnicastRoute, 'gateway' | 'source'>,
  way: { readonly link: number; readonly mark: number },
  all: readonly InterfaceAddress[],
): Promise<readonly InterfaceAddress[]> {
  const usable = all.filter(
    (one) => one.family === family && one.isGlobal && !one.isSecondary && !one.isUnsure,
  );
  const own = usable.filter(({ link }) => link === way.link);
  if (family === 'IPv4' && own.length > 0) {
    const next = route.gateway ?? value;
    const isNear = ({ network, length }: InterfaceAddress) =>
      (network ^ next) >> BigInt(ADDRESS_BITS.IPv4 - length) === 0n;
    return [own.find(isNear) ?? own[0]].flatMap((one) => one ?? []);
  }
  const asked = route.source === undefined ? await unlessNone(sourceTo(family, value, way)) : undefined;
  const answers = all.filter((one) => one.family === family && one.isGlobal && one.value === asked);
  const [answer] = answers.toSorted((a, b) => Number(b.link === way.link) - Number(a.link === way.link));
  if (answer !== undefined) return [answer];
  if (family === 'IPv4') return usable.toSorted((a, b) => a.link - b.link).slice(0, 1);
  return own.length > 0 ? own : usable;
}

/** What the kernel answers; undefined if it has no route for such packets. */
async function unlessNone<Answer>(asked: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    return undefined;
  }
}

/**
 * How packets that the policy masquerades leave with an address that is not meant, in words: by the default route of the main table, if
 * that is for another address; by any route, of any table, whose link has no address of the family.
 *
 * @throws {NetlinkError} also if the node has too many routes
 */
export async function unmeantSources(policy: Policy): Promise<readonly string[]> {
  const { family } = policy;
  if (allowedSources(policy)?.ranges.length === 0) return [];
  const [links, all] = [await allLinks(), allAddresses()];
  const pods = podLinks(links);
  const hasAddress = (index: number) =>
    all.some((one) => one.link === index && one.family === family && one.isGlobal);
  const bare = new Set(links.flatMap(({ index }) => (pods.has(index) || hasAddress(index) ? [] : [index])));
  const decided = flatten(policy).filter(
    ({ entry }) => entry.verdict === 'not_masqueraded' || entry.as?.candidates?.[0] !== undefined,
  );
  const masqueraded = complement(rangeSet(family, decided)).ranges;
  // Each table and link once: a tunnel can have a route for each peer.
  const concerned = new Map<string, UnicastRoute>();
  for (const route of await unicastRoutes([family], bare)) {
    const { address, length, table } = route;
    const isMain = length === 0 && table === RT_TABLE_MAIN;
    const isBare = route.links.some((index) => bare.has(index));
    const isMasqueraded = meetsSome(rangeOf(prefixAt(family, address, length)), masqueraded);
    const key = isMain ? 'main' : `${table} ${route.links}`;
    if ((isMain || isBare) && isMasqueraded && !concerned.has(key)) concerned.set(key, route);
  }
  const texts: string[] = [];
  for (const route of concerned.values()) {
    const link = links.find(({ index }) => index === route.links[0]);
    if (link !== undefined) texts.push(...(await unmeantText(route, link, all)));
  }
  return texts;
}

/** For benchmarks (RFC 2544, RFC 5180), so that no node has it: somewhere behind a default route. */
const SOMEWHERE: Readonly<Record<Family, bigint>> = {
  IPv4: (198n << 24n) | (18n << 16n) | 1n,
  IPv6: (0x2001_0002n << 96n) | 1n,
};

async function unmeantText(
  route: UnicastRoute,
  link: Pick<Link, 'index' | 'name'>,
  all: readonly InterfaceAddress[],
): Promise<readonly string[]> {
  const { family, address, length, table, source } = route;
  const isDefault = length === 0;
  const to = { family, value: isDefault ? SOMEWHERE[family] : address };
  const way = { link: link.index, mark: 0 };
  const found = await candidates(to, route, way, all);
  const where = table === RT_TABLE_MAIN ? '' : ` (routing table ${table})`;
  const what = isDefault ? '' : ` to ${prefixAt(family, address, length).text}`;
  const leaves = `a masqueraded packet${what} leaves by ${link.name}${where}${withText(family, linkTexts(link.index, found))}`;
  if (found.length === 0 || !isDefault || table !== RT_TABLE_MAIN) return [leaves];
  // The node itself sends with that address too.
  if (source === undefined || all.some((one) => one.link === link.index && one.value === source)) return [];
  // Of several addresses of IPv6, the destination decides which one it is.
  if (found.length > 1 || found[0]?.value === source) return [];
  return [`${leaves}, one that the node itself sends with ${formatAddress({ family, value: source })}`];
}
