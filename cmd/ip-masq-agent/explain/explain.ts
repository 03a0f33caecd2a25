import { type Address, parseAddress } from '../../../lib/cidr/address.ts';
import type { MergedConfig } from '../../../lib/config/config.ts';
import { systemHost } from '../../../lib/dataplane/host.ts';
import { prettyJson, quote } from '../../../lib/text/escape.ts';
import type { Args } from '../command.ts';
import type { EXPLAIN_FLAGS } from '../commands.ts';
import { EXIT, UsageError } from '../exit.ts';
import type { FlagValues } from '../flags.ts';
import { dataplaneOptions, retryOptions } from '../from-flags.ts';
import { openPatiently } from '../patient.ts';
import { print } from '../print.ts';
import { readConfig } from '../read-config.ts';
import { answerJson } from './explain-json.ts';
import { answerText } from './explain-text.ts';
import { type Answer, answer, liveAnswers } from './live.ts';

/** Says of each address whether traffic to it is masqueraded, and why. */
export async function explain({ flags, operands }: Args<typeof EXPLAIN_FLAGS>): Promise<number> {
  const addresses = operands.map(addressOf);
  const config = await readConfig(flags);
  const answers = flags.live
    ? await askNode(config, addresses, flags)
    : addresses.map((address) => answer(config, address, flags['enable-ipv6']));
  if (flags.output === 'json') print(prettyJson(answers.map(answerJson)));
  else print(answers.map(answerText).join(''));
  return answers.every(({ live }) => live?.agrees ?? true) ? EXIT.ok : EXIT.different;
}

async function askNode(
  config: MergedConfig,
  addresses: readonly Address[],
  flags: FlagValues,
): Promise<readonly Answer[]> {
  const host = systemHost(flags['sync-timeout']);
  const dataplane = await openPatiently(dataplaneOptions(flags), host, retryOptions(flags));
  return liveAnswers(config, addresses, flags['enable-ipv6'], dataplane, host);
}

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  const remedy = text.includes('/')
    ? 'write one address of it, without the prefix length'
    : 'write it such as 10.1.2.3 or fd00::1';
  throw new UsageError(`${quote(text)} is not an IP address: ${remedy}`);
}
