import fc from 'fast-check';
import { planTable } from '../../lib/dataplane/nftables/plan.ts';
import type { RuleOptions } from '../../lib/dataplane/options.ts';
import { requestOf } from '../../lib/netlink/change.ts';
import { attribute, NFPROTO } from '../../lib/netlink/messages.ts';
import type { Family, Policy } from '../../lib/policy/policy.ts';
import type { RawMessage } from './netlink.ts';

/** A message of nf_tables about the agent's table; see linux/netfilter/nf_tables.h for the numbers. */
function message(family: Family, type: number, ...attributes: readonly string[]): RawMessage {
  return messageFor(family, 'ip-masq-agent', type, attributes);
}

function messageFor(family: Family, table: string, type: number, attributes: readonly string[]): RawMessage {
  const { protocol } = NFPROTO[family];
  // NLM_F_CREATE: a rule comes before the other rules of the chain.
  return { type, flags: 0x400, protocol, attributes: attributeHex(1, textHex(table)) + attributes.join('') };
}

/** The attribute with its header, in hexadecimal digits. */
function attributeHex(type: number, content: string): string {
  return attribute(type, Buffer.from(content, 'hex')).toString('hex');
}

const textHex = (text: string) => Buffer.from(`${text}\0`).toString('hex');
const u32Hex = (type: number, value: number) => attributeHex(type, value.toString(16).padStart(8, '0'));
const valueHex = (type: number, bytes: string) => attributeHex(type | 0x8000, attributeHex(1, bytes));
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

const verdictHex = (code: number) =>
  expressionHex('immediate', u32Hex(1, 0), attributeHex(0x8002, attributeHex(0x8002, u32Hex(1, code))));
const ACCEPT = verdictHex(1);
const OPAQUE_COMMENT = '000178';
/** How nft 1.1.2 and later keep the type of keys. */
const KEY_TYPE = '03080004040000000100';

/** Parts of rules that no tool writes so, or that only iptables writes. */
const PARTS = {
  // 1,000 bytes
  quota: [expressionHex('quota', attributeHex(1, '00000000000003e8'))],
  match: [
    expressionHex(
      'match',
      attributeHex(1, textHex('comment')),
      u32Hex(2, 0),
      attributeHex(3, '78'.repeat(256)),
    ),
  ],
  hostOrder: [
    expressionHex('numgen', u32Hex(1, 1), u32Hex(2, 3), u32Hex(3, 1)),
    expressionHex('cmp', u32Hex(1, 1), u32Hex(2, 2), valueHex(3, '01000000')),
  ],
  unusedPorts: [
    expressionHex('immediate', u32Hex(1, 1), valueHex(2, '0400')),
    expressionHex('masq', u32Hex(2, 1)),
  ],
  // 3 a second
  limit: [expressionHex('limit', attributeHex(1, '0000000000000003'), attributeHex(2, '0000000000000001'))],
  last: [expressionHex('last')],
  unusedLoad: [expressionHex('meta', u32Hex(1, 1), u32Hex(2, 3))],
  shift: [
    expressionHex('ct', u32Hex(1, 1), u32Hex(2, 3)),
    expressionHex(
      'bitwise',
      ...[1, 1, 4].map((value, at) => u32Hex(at + 1, value)),
      u32Hex(6, 1),
      valueHex(7, '03000000'),
    ),
    expressionHex('cmp', u32Hex(1, 1), u32Hex(2, 0), valueHex(3, '08000000')),
  ],
  target: [
    expressionHex(
      'target',
      attributeHex(1, textHex('MARK')),
      u32Hex(2, 2),
      attributeHex(3, '01000000ffffffff'),
    ),
  ],
  connections: [expressionHex('connlimit', u32Hex(1, 5))],
  counted: [
    expressionHex('counter', attributeHex(1, '0000000000000007'), attributeHex(2, '0000000000000001')),
  ],
} as const;

/** What no tool writes, or every nft dies on. Each alone makes the table differ. */
export function RAW_EDITS(family: Family): readonly (readonly [what: string, RawMessage])[] {
  const rule = (...values: [readonly string[], string?]) => ruleMessage(family, ...values);
  const theirs = attributeHex(2, textHex('theirs'));
  return [
    ['an expression that the agent does not know', rule([...PARTS.quota, ACCEPT])],
    ['a match of iptables', rule([...PARTS.match, ACCEPT])],
    ['a comment without an end', rule([ACCEPT], OPAQUE_COMMENT)],
    ['a chance in the byte order of the machine', rule([...PARTS.hostOrder, ACCEPT])],
    ['ports that the kernel does not use', rule(PARTS.unusedPorts)],
    [
      'a set on which older versions of nft die',
      message(
        family,
        0x0a09,
        theirs,
        ...[u32Hex(3, 4), u32Hex(4, 7), u32Hex(5, 4), u32Hex(10, 1)],
        attributeHex(13, `000402000000${KEY_TYPE}`),
      ),
    ],
    // NFT_OBJECT_COUNTER
    ['an object', message(family, 0x0a12, theirs, u32Hex(3, 1), attributeHex(0x8004, ''))],
  ];
}

/** One of `RAW_EDITS`, or a rule of any of its parts. */
export function rawEdits(family: Family): fc.Arbitrary<RawMessage> {
  const parts = fc.array(fc.constantFrom(...Object.values(PARTS)), { maxLength: 3 });
  const rule = fc.record({
    expressions: fc.tuple(parts, fc.constantFrom('', ACCEPT, verdictHex(-5), verdictHex(-1))),
    userData: fc.oneof(
      fc.constantFrom('', OPAQUE_COMMENT),
      fc.uint8Array({ maxLength: 6 }).map((bytes) => Buffer.from(bytes).toString('hex')),
    ),
    // NLM_F_APPEND: behind the other rules.
    flags: fc.constantFrom(0x400, 0xc00),
  });
  return fc.oneof(
    fc.constantFrom(...RAW_EDITS(family).map(([, edit]) => edit)),
    rule.map(({ expressions, userData, flags }) => ({
      ...ruleMessage(family, expressions.flat(2), userData),
      flags,
    })),
  );
}

/** A rule of any parts in one of the chains of `nat`, or one of POSTROUTING that leads to the first; also what no tool can list. */
export function rawNatRules(
  family: Family,
  chains: readonly [string, ...string[]],
): fc.Arbitrary<RawMessage> {
  const leading = (code: number) =>
    expressionHex(
      'immediate',
      u32Hex(1, 0),
      attributeHex(0x8002, attributeHex(0x8002, u32Hex(1, code) + attributeHex(2, textHex(chains[0])))),
    );
  // NFT_JUMP, NFT_GOTO and NFT_RETURN, as 32 bits.
  const entering = fc.tuple(
    fc.constant('POSTROUTING'),
    fc.constantFrom(...[0xfffffffd, 0xfffffffc].map(leading)),
  );
  const inside = fc.tuple(fc.constantFrom(...chains), fc.constantFrom('', ACCEPT, verdictHex(0xfffffffb)));
  return fc
    .record({
      place: fc.oneof(entering, { weight: 3, arbitrary: inside }),
      parts: fc.array(fc.constantFrom(...Object.values(PARTS)), { maxLength: 2 }),
      flags: fc.constantFrom(0x400, 0xc00),
    })
    .map(({ place: [chain, end], parts, flags }) => {
      const expressions = attributeHex(0x8004, [...parts.flat(), end].join(''));
      const attributes = [attributeHex(2, textHex(chain)), expressions];
      return { ...messageFor(family, 'nat', 0x0a06, attributes), flags };
    });
}

/** What is changed of one of the messages that make the table. */
export interface Change {
  readonly message: number;
  /** Which bits of which byte. */
  readonly byte: number;
  readonly bits: number;
  /** What is added to its user data, as hexadecimal digits. */
  readonly added: string;
}

export function changes(): fc.Arbitrary<Change> {
  const bits = fc.oneof(
    fc.nat(7).map((bit) => 1 << bit),
    fc.integer({ min: 1, max: 255 }),
  );
  const flip = fc.record({ message: fc.nat(), byte: fc.nat(), bits, added: fc.constant('') });
  const added = fc.constantFrom(OPAQUE_COMMENT, KEY_TYPE);
  const more = fc.record({ message: fc.nat(), byte: fc.constant(0), bits: fc.constant(0), added });
  return fc.oneof({ arbitrary: flip, weight: 3 }, { arbitrary: more, weight: 1 });
}

/** The messages that make the table of a policy again, but for a change. The kernel refuses most of them. */
export function changed(policy: Policy, options: RuleOptions, change: Change): readonly RawMessage[] {
  const { family } = policy;
  const plan = planTable(undefined, policy, options);
  const requests = plan?.transactions.flat().map(requestOf) ?? [];
  const messages = requests.map(({ attributes, ...one }, index) => {
    if (index !== change.message % requests.length)
      return { ...one, attributes: Buffer.concat(attributes).toString('hex') };
    const bytes = Buffer.concat(attributes.map((attribute) => withMore(attribute, change.added)));
    const at = change.byte % bytes.length;
    bytes.writeUInt8(bytes.readUInt8(at) ^ change.bits, at);
    return { ...one, attributes: bytes.toString('hex') };
  });
  // NFT_MSG_DELTABLE
  return [{ ...message(family, 0x0a02), flags: 0 }, ...messages];
}

/** The attribute, with more at its end if it is user data. */
function withMore(bytes: Buffer, added: string): Buffer {
  if (!bytes.includes('ip-masq-agent: ')) return bytes;
  const content = bytes.subarray(4, bytes.readUInt16LE());
  return attribute(bytes.readUInt16LE(2), Buffer.concat([content, Buffer.from(added, 'hex')]));
}
