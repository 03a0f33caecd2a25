import { retrying } from '../agent/retry.ts';
import { type NodeAccess, survey } from '../agent/rule-locations.ts';
import type { Address, Family } from '../cidr/address.ts';
import { kubeProxyDropsInvalid } from '../doctor/invalid-packets.ts';
import { bpfLinks } from '../doctor/machine-findings.ts';
import { destinationsOf } from '../flows/destinations.ts';
import { Budget, COMMAND_LIMITS } from '../foreign/budget.ts';
import { readNode } from '../foreign/read-node.ts';
import { Conntrack } from '../netlink/conntrack.ts';
import { NetlinkError } from '../netlink/error.ts';
import { createIsLocal, usableSourceAddresses } from '../node/own-addresses.ts';
import { agreesWholly, type Explained, type ExplainRequest, explainedLive, placesOf } from './explain.ts';

/**
 * The answers of the node, and the addresses without a connection that shows where packets to them go.
 *
 * @throws {DataplaneError} if the dataplane in use cannot be read
 */
export async function askNode(
  question: ExplainRequest,
  addresses: readonly Address[],
  access: NodeAccess,
): Promise<{ readonly answers: readonly Explained[]; readonly unseen: readonly Address[] }> {
  const families = [...new Set(addresses.map(({ family }) => family))];
  const { host, dataplane, retry } = access;
  const places = await survey(access, families);
  const nodeOptions = {
    families,
    ownChain: dataplane.chain,
    iptables: places.dataplane.iptables,
    withFilters: true,
  };
  const read = () => readNode(host, nodeOptions, new Budget(COMMAND_LIMITS));
  const node = await retrying(read, retry);
  const budget = new Budget(COMMAND_LIMITS);
  const dropping: Family[] = [];
  for (const family of families) if (await kubeProxyDropsInvalid(host, family)) dropping.push(family);
  const common = {
    node,
    budget,
    bpf: await bpfLinks(host),
    own: usableSourceAddresses(),
    isOwn: createIsLocal(),
  };
  const reached = await findDestinations(addresses, question.from);
  const answers: Explained[] = [];
  for (const [index, address] of addresses.entries()) {
    const { family } = address;
    const known = { ...common, ...placesOf(family, places), kubeProxyDrops: dropping.includes(family) };
    const targets = reached[index]?.length ? reached[index] : [address];
    const found: Explained[] = [];
    // One after the other: a Service can have very many endpoints, and each may need a tool.
    for (const one of targets) found.push(await explainedLive(question, one, known));
    for (const one of onePerVerdict(found))
      answers.push(one.address.value === address.value ? one : { ...one, translatedFrom: address });
  }
  return { answers, unseen: addresses.filter((_, index) => !reached[index]?.length) };
}

/** Where connections to the addresses go; nothing if conntrack cannot be read. */
async function findDestinations(addresses: readonly Address[], from: Address | undefined) {
  try {
    using conntrack = new Conntrack();
    return await destinationsOf(conntrack, addresses, from);
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    return [];
  }
}

/** The first of those that have the same verdicts. */
function onePerVerdict(found: readonly Explained[]): readonly Explained[] {
  const keys = found.map(({ decision, live }) =>
    JSON.stringify([decision?.verdict, live?.kernel.verdict, live && agreesWholly(live)]),
  );
  return found.filter((_, index) => keys.indexOf(keys[index] ?? '') === index);
}
