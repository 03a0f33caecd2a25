import { retrying } from '../../../lib/agent/retry.ts';
import { type Address, type Family, formatAddress, parseAddress } from '../../../lib/cidr/address.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { listPlaces, openDataplane } from '../../../lib/dataplane/open.ts';
import { kubeProxyDropsInvalid } from '../../../lib/doctor/invalid-packets.ts';
import { bpfLinks } from '../../../lib/doctor/machine-findings.ts';
import { readNode } from '../../../lib/foreign/read-node.ts';
import { painter } from '../../../lib/text/colour.ts';
import { prettyJson, quote } from '../../../lib/text/escape.ts';
import type { Args } from '../command.ts';
import type { EXPLAIN_FLAGS } from '../command-flags.ts';
import { EXIT, UsageError } from '../exit.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, foreignHost, keptFamilies, retryOptions } from '../from-flags.ts';
import { print, wantsColour } from '../print.ts';
import { readConfig } from '../read-config.ts';
import { explainedJson } from './explain-json.ts';
import { explainedText } from './explain-text.ts';
import { agreesWholly, type Explained, explained, explainedLive } from './live.ts';

/** Says for each address whether traffic to it is masqueraded, and why. */
export async function explain({ flags, operands }: Args<typeof EXPLAIN_FLAGS>): Promise<number> {
  const addresses = operands.map(addressOf);
  const { from } = flags;
  const other = addresses.find(({ family }) => from !== undefined && family !== from.family);
  if (other !== undefined)
    throw new UsageError(`${formatAddress(other)} and the address of --from are not of one family`);
  const config = await readConfig(flags, { forPeople: flags.output === 'text' });
  const answers = flags.live
    ? await askNode(config, addresses, from, flags)
    : addresses.map((address) => explained(config, address, from, keptFamilies(flags)));
  if (flags.output === 'json') print(prettyJson(answers.map(explainedJson)));
  else print(answers.map((answer) => explainedText(answer, painter(wantsColour(process.stdout)))).join(''));
  return answers.every(({ live }) => live === undefined || agreesWholly(live)) ? EXIT.ok : EXIT.different;
}

async function askNode(
  config: MergedConfig,
  addresses: readonly Address[],
  from: Address | undefined,
  flags: FlagValues,
): Promise<readonly Explained[]> {
  const host = systemHost(flags['sync-timeout']);
  const retry = retryOptions(flags);
  const options = dataplaneOptions(flags);
  const { dataplane } = await retrying(() => openDataplane(options, host, foreignHost(flags)), retry);
  const families = [...new Set(addresses.map(({ family }) => family))];
  const nodeOptions = { families, ownChain: options.chain, iptables: dataplane.iptables };
  const node = await retrying(() => readNode(foreignHost(flags), nodeOptions), retry);
  const places = await listPlaces(options, host);
  const kubeProxyDrops: Family[] = [];
  for (const family of families) if (await kubeProxyDropsInvalid(host, family)) kubeProxyDrops.push(family);
  const seen = { dataplane, places, node, bpf: await bpfLinks(host), kubeProxyDrops, retry };
  return explainedLive(config, addresses, from, keptFamilies(flags), seen);
}

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  const remedy = text.includes('/')
    ? 'write one address of the network, without the prefix length'
    : 'write an address such as 10.1.2.3 or fd00::1';
  throw new UsageError(`${quote(text)} is not an IP address: ${remedy}`);
}
