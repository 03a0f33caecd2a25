import { retrying } from '../../../lib/agent/retry.ts';
import { survey } from '../../../lib/agent/rule-locations.ts';
import { type Address, type Family, formatAddress, parseAddress } from '../../../lib/cidr/address.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { kubeProxyDropsInvalid } from '../../../lib/doctor/invalid-packets.ts';
import { bpfLinks } from '../../../lib/doctor/machine-findings.ts';
import { destinationsOf } from '../../../lib/flows/destinations.ts';
import { Budget, COMMAND_LIMITS } from '../../../lib/foreign/budget.ts';
import { readNode } from '../../../lib/foreign/read-node.ts';
import { Conntrack } from '../../../lib/netlink/conntrack.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { createIsLocal, usableSourceAddresses } from '../../../lib/node/own-addresses.ts';
import { quote } from '../../../lib/text/escape.ts';
import type { Args } from '../command.ts';
import type { EXPLAIN_FLAGS } from '../command-flags.ts';
import { EXIT, UsageError } from '../exit.ts';
import type { FlagValues } from '../flags.ts';
import { commandHost, dataplaneOptions, keptFamilies, retryOptions } from '../from-flags.ts';
import { printResult } from '../print.ts';
import { errorJson, orInvalid, readConfig } from '../read-config.ts';
import { explainedJson } from './explain-json.ts';
import { explainedText, unseenText } from './explain-text.ts';
import { agreesWholly, type Explained, explained, explainedLive, placesOf } from './live.ts';

export async function explain({ flags, operands }: Args<typeof EXPLAIN_FLAGS>): Promise<number> {
  const addresses = operands.map(addressOf);
  const { from } = flags;
  const other = addresses.find(({ family }) => from !== undefined && family !== from.family);
  if (other !== undefined)
    throw new UsageError(`${formatAddress(other)} and the address of --from are not of one family`);
  const read = readConfig(flags, { forPeople: flags.output === 'text' });
  const { config, error } = flags.live ? await orInvalid(read) : { config: await read };
  const { answers, unseen } = flags.live
    ? await askNode(config, addresses, from, flags)
    : {
        answers: addresses.map((address) => explained(config, address, from, keptFamilies(flags))),
        unseen: [],
      };
  const agrees = answers.every(({ live }) => live === undefined || agreesWholly(live));
  const code = agrees ? EXIT.ok : EXIT.different;
  const json = {
    addresses: answers.map(explainedJson),
    ...(flags.live && { unseen: unseen.map(formatAddress) }),
    ...errorJson(error),
  };
  printResult(flags.output, code, json, (paint) =>
    [...answers.map((answer) => explainedText(answer, paint)), unseenText(unseen)].join(''),
  );
  if (error !== undefined) throw error;
  return code;
}

/** The answers of the node, and the addresses without a connection that shows where packets to them go. */
async function askNode(
  config: MergedConfig | undefined,
  addresses: readonly Address[],
  from: Address | undefined,
  flags: FlagValues,
) {
  const host = commandHost(flags);
  const retry = retryOptions(flags);
  const options = dataplaneOptions(flags);
  const families = [...new Set(addresses.map(({ family }) => family))];
  const places = await survey(options, host, retry, families);
  const nodeOptions = {
    families,
    ownChain: options.chain,
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
  const reached = await findDestinations(addresses, from);
  const answers: Explained[] = [];
  for (const [index, address] of addresses.entries()) {
    const { family } = address;
    const known = { ...common, ...placesOf(family, places), kubeProxyDrops: dropping.includes(family) };
    const targets = reached[index]?.length ? reached[index] : [address];
    const found: Explained[] = [];
    // One after the other: a Service can have very many endpoints, and each may need a tool.
    for (const one of targets) found.push(await explainedLive(config, one, from, keptFamilies(flags), known));
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

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  const remedy = text.includes('/')
    ? 'write one address of the network, without the prefix length'
    : 'write an address such as 10.1.2.3 or fd00::1';
  throw new UsageError(`${quote(text)} is not an IP address: ${remedy}`);
}
