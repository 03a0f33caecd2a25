import { type Address, formatAddress, parseAddress } from '../../../lib/cidr/address.ts';
import { type Prefix, parsePrefix } from '../../../lib/cidr/prefix.ts';
import { askNode } from '../../../lib/explain/ask-node.ts';
import {
  agreesWholly,
  type Explained,
  type ExplainRequest,
  explained,
  explainedRange,
} from '../../../lib/explain/explain.ts';
import { adviceText } from '../../../lib/text/advice.ts';
import { quote } from '../../../lib/text/escape.ts';
import type { Args } from '../command.ts';
import type { EXPLAIN_FLAGS } from '../command-flags.ts';
import { EXIT, UsageError } from '../exit.ts';
import { explainedJson } from '../explain-json.ts';
import { keptFamilies, nodeAccess } from '../from-flags.ts';
import { printResult } from '../print.ts';
import { errorJson, orInvalid, readConfig } from '../read-config.ts';
import { explainedText, serviceText, unseenText } from './explain-text.ts';

export async function explain({ flags, operands }: Args<typeof EXPLAIN_FLAGS>): Promise<number> {
  const asked = operands.map((text) => askedOf(text, flags.live));
  const addresses = asked.map(({ address }) => address);
  const { from } = flags;
  const other = addresses.find(({ family }) => from !== undefined && family !== from.family);
  if (other !== undefined)
    throw new UsageError(`${formatAddress(other)} and the address of --from are not of one family`);
  const read = readConfig(flags, { forPeople: flags.output === 'text' });
  const isOfNode = flags.live || flags.filename.length === 0;
  const { config, error } = isOfNode ? await orInvalid(read) : { config: await read };
  const question = { config, from, families: keptFamilies(flags) };
  const { answers, unseen } = flags.live
    ? await askNode(question, addresses, nodeAccess(flags), flags['accept-masqueraded'])
    : { answers: asked.flatMap((one) => answersTo(question, one)), unseen: [] };
  const agrees = answers.every(({ live }) => live === undefined || agreesWholly(live));
  const code = agrees ? EXIT.ok : EXIT.different;
  const json = {
    addresses: answers.map(explainedJson),
    ...(flags.live && { unseen: unseen.map(formatAddress) }),
    ...errorJson(error),
  };
  const noted = flags.live ? unseenText(unseen) : serviceText(error ? [] : answers);
  printResult(flags.output, code, json, (paint) =>
    [...answers.map((answer) => explainedText(answer, paint)), noted].join(''),
  );
  if (error !== undefined) throw error;
  return code;
}

interface Asked {
  readonly address: Address;
  /** The range, if it is one. */
  readonly prefix?: Prefix;
}

function answersTo(question: ExplainRequest, { address, prefix }: Asked): readonly Explained[] {
  const { config } = question;
  if (prefix === undefined || config === undefined) return [explained(question, address)];
  return explainedRange({ ...question, config }, prefix);
}

function askedOf(text: string, isLive: boolean): Asked {
  const address = parseAddress(text);
  if (address !== undefined) return { address };
  const parsed = text.includes('/') && !isLive ? parsePrefix(text) : undefined;
  if (parsed !== undefined && 'prefix' in parsed) {
    const { prefix } = parsed;
    return { address: { family: prefix.family, value: prefix.address }, prefix };
  }
  if (parsed !== undefined) throw new UsageError(`${quote(text)} ${adviceText(parsed.error)}`);
  throw new UsageError(`${quote(text)} is not an IP address: ${remedyFor(text)}`);
}

function remedyFor(text: string): string {
  if (text.includes('/')) return 'with --live, write one address of the range, without the prefix length';
  return 'write an address such as 10.1.2.3 or fd00::1';
}
