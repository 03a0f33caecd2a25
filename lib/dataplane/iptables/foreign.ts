import type { Netlink, Requests } from '../netlink.ts';
import { BUILT_IN_CHAINS } from './detect.ts';
import { ruleTarget } from './rule.ts';
import type { Tool } from './tool.ts';

/** A chain that holds more is not listed: a foreign chain can hold 100,000 rules, all of which the tool reads. */
const MOST_RULES = 1_000;

/** A chain that may hold the rule. */
interface Place {
  readonly chain: string;
  /** Whether it is known that it does. */
  readonly isCertain: boolean;
  readonly isSmall: boolean;
}

/**
 * A foreign rule that leads to the chain, as `iptables -S` prints it, or words for one that is not found. Without
 * netlink it is looked for in the built-in chains only.
 *
 * @param isOwn whether a rule in a place is the agent's
 */
export async function foreignRule(
  tool: Tool,
  netlink: Netlink | undefined,
  chain: string,
  isOwn: (place: string, spec: string) => boolean,
): Promise<string> {
  const asked = await netlink?.ask((requests) => placesOf(requests, tool, chain));
  const places = asked ?? BUILT_IN_CHAINS.map((name) => ({ chain: name, isCertain: false, isSmall: true }));
  let words = 'a rule in another chain';
  for (const place of places) {
    const specs = place.isSmall ? await tool.list(place.chain) : undefined;
    const found = specs?.find((spec) => ruleTarget(spec) === chain && !isOwn(place.chain, spec));
    if (found !== undefined) return `-A ${place.chain} ${found}`;
    if (specs === undefined && place.isCertain) words = `a rule in ${place.chain}`;
  }
  return words;
}

async function placesOf(requests: Requests, { family }: Tool, to: string): Promise<readonly Place[]> {
  const nat = { family, table: 'nat' };
  const chains = new Set((await requests.rules(nat, to)).map(({ chain }) => chain));
  const places: Place[] = [];
  for (const chain of chains) {
    const use = (await requests.chain({ ...nat, chain }))?.use ?? 0;
    places.push({ chain, isCertain: true, isSmall: use <= MOST_RULES });
  }
  return places;
}
