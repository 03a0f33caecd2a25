import { attribute, NFPROTO } from '../../lib/netlink/messages.ts';
import type { Family } from '../../lib/policy/policy.ts';
import type { RawMessage } from './netlink.ts';

/** A message of nf_tables about the agent's table; see linux/netfilter/nf_tables.h for the numbers. */
function message(family: Family, type: number, ...attributes: readonly string[]): RawMessage {
  const { protocol } = NFPROTO[family];
  const table = attributeHex(1, textHex('ip-masq-agent'));
  // NLM_F_CREATE: a rule comes before the other rules of the chain.
  return { type, flags: 0x400, protocol, attributes: table + attributes.join('') };
}

/** The attribute with its header, in hexadecimal digits. */
function attributeHex(type: number, content: string): string {
  return attribute(type, Buffer.from(content, 'hex')).toString('hex');
}

const textHex = (text: string) => Buffer.from(`${text}\0`).toString('hex');
const u32Hex = (type: number, value: number) => attributeHex(type, value.toString(16).padStart(8, '0'));
const expressionHex = (name: string, ...data: readonly string[]) =>
  attributeHex(0x8001, attributeHex(1, textHex(name)) + attributeHex(0x8002, data.join('')));

function ruleMessage(family: Family, expressions: readonly string[], userData = ''): RawMessage {
  return message(
    family,
    0x0a06,
    attributeHex(2, textHex('postrouting')),
    attributeHex(0x8004, expressions.join('')),
    userData && attributeHex(7, userData),
  );
}

const ACCEPT = expressionHex(
  'immediate',
  u32Hex(1, 0),
  attributeHex(0x8002, attributeHex(0x8002, u32Hex(1, 1))),
);
// 1,000 bytes
const QUOTA = expressionHex('quota', attributeHex(1, '00000000000003e8'));
const MATCH = expressionHex(
  'match',
  attributeHex(1, textHex('comment')),
  u32Hex(2, 0),
  attributeHex(3, '78'.repeat(256)),
);

/** What no tool writes, or every nft dies on. Each alone makes the table differ. */
export function RAW_EDITS(family: Family): readonly (readonly [what: string, RawMessage])[] {
  const theirs = attributeHex(2, textHex('theirs'));
  return [
    ['an expression that the agent does not know', ruleMessage(family, [QUOTA, ACCEPT])],
    ['a match of iptables', ruleMessage(family, [MATCH, ACCEPT])],
    ['a comment without an end', ruleMessage(family, [ACCEPT], '000178')],
    [
      'a set on which older versions of nft die',
      message(
        family,
        0x0a09,
        theirs,
        ...[u32Hex(3, 4), u32Hex(4, 7), u32Hex(5, 4), u32Hex(10, 1)],
        // nft 1.1.2 and later keep the type of keys in the second of these.
        attributeHex(13, '00040200000003080004040000000100'),
      ),
    ],
    // NFT_OBJECT_COUNTER
    ['an object', message(family, 0x0a12, theirs, u32Hex(3, 1), attributeHex(0x8004, ''))],
  ];
}
