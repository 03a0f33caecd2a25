import { type NodeAccess, survey } from '../agent/rule-locations.ts';
import type { Address } from '../cidr/address.ts';
import type { Prefix } from '../cidr/prefix.ts';
import { type FlowsTo, flowsTo } from '../flows/destinations.ts';
import { flowJudge } from '../flows/judge.ts';
import { MOST_FLOWS } from '../flows/read.ts';
import { readSuspects } from '../foreign/read-suspects.ts';
import { Conntrack } from '../netlink/conntrack.ts';
import { NetlinkError } from '../netlink/error.ts';
import { createIsLocal, usableSourceAddresses } from '../node/own-addresses.ts';
import { compilePolicy, type Policy } from '../policy/policy.ts';
import { agreesWholly, type Explained, type ExplainRequest, explainedLive, placesOf } from './explain.ts';

/**
 * The answers of the node, and the addresses without a connection that shows where packets to them go.
 *
 * @param accepted ranges of pods whose connections are not judged
 * @throws {DataplaneError} if the dataplane in use cannot be read
 */
export async function askNode(
  question: ExplainRequest,
  addresses: readonly Address[],
  access: NodeAccess,
  accepted: readonly Prefix[],
): Promise<{ readonly answers: readonly Explained[]; readonly unseen: readonly Address[] }> {
  const families = [...new Set(addresses.map(({ family }) => family))];
  const { host, dataplane } = access;
  const places = await survey(access, families);
  const { iptables } = places.dataplane;
  const asked = { families, ownChain: dataplane.chain, iptables };
  const suspects = await readSuspects(host, asked);
  const own = usableSourceAddresses();
  const { config } = question;
  const policies = config && question.families.map((family) => compilePolicy(config, family, own));
  const { reached, unread } = await findFlows(addresses, question.from, policies, accepted);
  const common = {
    suspects: { ...suspects, unread: [...suspects.unread, ...unread] },
    own,
    isOwn: createIsLocal(),
  };
  const answers: Explained[] = [];
  for (const [index, address] of addresses.entries()) {
    const { family } = address;
    const known = { ...common, ...placesOf(family, places) };
    const { destinations = [], flows = [] } = reached[index] ?? {};
    const targets = destinations.length > 0 ? destinations : [address];
    const found: Explained[] = [];
    // One after the other: a Service can have very many endpoints, and each may need a tool.
    for (const one of targets) {
      const to = flows.filter(({ destination }) => destination === one.value);
      found.push(await explainedLive(question, one, { ...known, flows: to }));
    }
    for (const one of onePerVerdict(found))
      answers.push(one.address.value === address.value ? one : { ...one, translatedFrom: address });
  }
  return { answers, unseen: addresses.filter((_, index) => !reached[index]?.destinations.length) };
}

/** What conntrack shows of connections to the addresses; nothing if it cannot be read, and why. */
async function findFlows(
  addresses: readonly Address[],
  from: Address | undefined,
  policies: readonly Policy[] | undefined,
  accepted: readonly Prefix[],
): Promise<{ readonly reached: readonly FlowsTo[]; readonly unread: readonly string[] }> {
  try {
    using conntrack = new Conntrack();
    const judge = policies && (await flowJudge(policies, accepted));
    const reached = await flowsTo(conntrack, addresses, from, judge);
    if (reached !== undefined) return { reached, unread: [] };
    return { reached: [], unread: [`conntrack holds more than ${MOST_FLOWS} flows`] };
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    return { reached: [], unread: [error.message] };
  }
}

/** The first of those that have the same verdicts. */
export function onePerVerdict(found: readonly Explained[]): readonly Explained[] {
  const keys = found.map(({ decision, live }) =>
    JSON.stringify([decision?.verdict, live?.kernel.verdict, live && agreesWholly(live)]),
  );
  return found.filter((_, index) => keys.indexOf(keys[index] ?? '') === index);
}
