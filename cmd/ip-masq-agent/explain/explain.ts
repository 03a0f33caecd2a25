import { type Address, formatAddress, parseAddress } from '../../../lib/cidr/address.ts';
import { askNode } from '../../../lib/explain/ask-node.ts';
import { agreesWholly, explained } from '../../../lib/explain/explain.ts';
import { quote } from '../../../lib/text/escape.ts';
import type { Args } from '../command.ts';
import type { EXPLAIN_FLAGS } from '../command-flags.ts';
import { EXIT, UsageError } from '../exit.ts';
import { explainedJson } from '../explain-json.ts';
import { endOf } from '../flag-kinds.ts';
import { keptFamilies, nodeAccess } from '../from-flags.ts';
import { printResult } from '../print.ts';
import { errorJson, orInvalid, readConfig } from '../read-config.ts';
import { explainedText, unseenText } from './explain-text.ts';

export async function explain({ flags, operands }: Args<typeof EXPLAIN_FLAGS>): Promise<number> {
  const addresses = operands.map(addressOf);
  const { from } = flags;
  const other = addresses.find(({ family }) => from !== undefined && family !== from.family);
  if (other !== undefined)
    throw new UsageError(`${formatAddress(other)} and the address of --from are not of one family`);
  const read = readConfig(flags, { forPeople: flags.output === 'text' });
  const { config, error } = flags.live ? await orInvalid(read) : { config: await read };
  const question = { config, from, families: keptFamilies(flags) };
  const { answers, unseen } = flags.live
    ? await askNode(question, addresses, nodeAccess(flags))
    : { answers: addresses.map((address) => explained(question, address)), unseen: [] };
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

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  throw new UsageError(`${quote(text)} is not an IP address: ${remedyFor(text)}`);
}

function remedyFor(text: string): string {
  if (text.includes('/')) return 'write one address of the network, without the prefix length';
  if (endOf(text) !== undefined) return 'leave out the port, which does not matter to the config';
  return 'write an address such as 10.1.2.3 or fd00::1';
}
