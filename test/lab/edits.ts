import fc from 'fast-check';
import type { Box } from './box.ts';
import type { RunResult } from './run.ts';

/** Where the agent keeps its rules. */
export type Way = 'nftables' | 'iptables-nft' | 'iptables-legacy';

/** As nft(8) names the families. */
export type Protocol = 'ip' | 'ip6';

/** What another program does to the agent's rules. It may fail: then it has changed nothing. */
export type Edit = { readonly protocol: Protocol } & (
  | {
      /** A transaction of nft(8). `#2` stands for the handle of the third rule of the agent's chain. */
      readonly nft: string;
    }
  /** The arguments of iptables or ip6tables. */
  | { readonly iptables: readonly string[] }
);

const ADDRESSES = {
  ip: {
    type: 'ipv4_addr',
    // The kernel keeps no end for a range that ends at the highest address.
    elements: [
      ...'10.0.0.0/8 224.0.0.0/4 128.0.0.0/1 255.255.255.255 240.0.0.1-255.255.255.255 0.0.0.0/1'.split(' '),
      ...'0.0.0.0 0.0.0.0-9.255.255.255 172.16.0.0/12 10.0.0.7-10.0.3.9 169.254.0.0/16'.split(' '),
      ...'0.0.0.0/0 *'.split(' '),
    ],
  },
  ip6: {
    type: 'ipv6_addr',
    elements: [
      ...'fd00::/8 ff00::/8 8000::/1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'.split(' '),
      ...'fec0::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ::/1 :: ::-fcff:: 2001:db8::/32'.split(' '),
      ...'2001:db8::7-2001:db8::1:9 fe80::/10 ::/0 *'.split(' '),
    ],
  },
} as const;

/** Comments that a parser of listings can trip over. */
const COMMENTS = [
  'foreign',
  'ip-masq-agent: everything else is masqueraded',
  'a, b } ; elements = { 1.2.3.4 }',
  'first\n\tchain postrouting {\n-A IP-MASQ-AGENT -j ACCEPT',
  "it's \\ $(odd) #é",
] as const;

/** Any foreign edit. */
export function edits(way: Way): fc.Arbitrary<Edit> {
  return fc.oneof(...PROTOCOLS.map(way === 'nftables' ? tableEdits : chainEdits));
}

export const PROTOCOLS = ['ip', 'ip6'] as const satisfies readonly Protocol[];

/** Carries out the edit. */
export async function carryOut(box: Box, way: Way, edit: Edit): Promise<RunResult> {
  if ('nft' in edit) return await box.run('nft', ['-f', '-'], { input: await complete(box, edit) });
  return await box.run(iptablesOf(way, edit.protocol), ['--wait', '-t', 'nat', ...edit.iptables]);
}

/** The mode's tool for the family. */
export function iptablesOf(way: Way, protocol: Protocol): string {
  return `${protocol}tables${way === 'iptables-legacy' ? '-legacy' : '-nft'}`;
}

/** The transaction with the handles of rules, behind one that makes all that foreign rules refer to. */
async function complete(box: Box, { protocol, nft }: { protocol: Protocol; nft: string }): Promise<string> {
  const table = `${protocol} ip-masq-agent`;
  const { type } = ADDRESSES[protocol];
  const objects = [
    // Fails if there is no table, so that none is made without the agent's comment.
    `add chain ${table} foreign-chain`,
    `add chain ${table} foreign-base { type filter hook forward priority 0; policy accept; }`,
    `add chain ${table} foreign-nat { type nat hook postrouting priority 90; }`,
    `add set ${table} foreign-set { type ${type}; flags interval; }`,
    `add map ${table} foreign-map { type ${type} : verdict; flags interval; }`,
    `add counter ${table} foreign-counter`,
    `add quota ${table} foreign-quota { over 10 mbytes }`,
  ];
  const script = [...(/foreign-|dormant/.test(nft) ? objects : []), nft, ''].join('\n');
  if (!/#\d/.test(nft)) return script;
  const { stdout } = await box.run('nft', ['-a', 'list', 'chain', ...table.split(' '), 'postrouting']);
  const handles = [...stdout.matchAll(/^\t\t.* # handle (\d+)$/gm)].map(([, handle]) => handle);
  return script.replace(/#(\d)/g, (_, index) => handles[Number(index) % handles.length] ?? '1');
}

type Words = string | fc.Arbitrary<string>;

/** A text of words, some of which vary. */
function line(...words: readonly Words[]): fc.Arbitrary<string> {
  const parts = words.map((word) => (typeof word === 'string' ? fc.constant(word) : word));
  return fc.tuple(...parts).map((texts) => texts.filter((text) => text !== '').join(' '));
}

const oneOf = fc.constantFrom<string[]>;

/** Edits of the agent's table. Its comment stays, without which it would be another program's. */
function tableEdits(protocol: Protocol): fc.Arbitrary<Edit> {
  const { type, elements } = ADDRESSES[protocol];
  const table = `${protocol} ip-masq-agent`;
  const chain = oneOf('postrouting', 'postrouting', 'foreign-chain', 'foreign-base', 'foreign-nat');
  const ownSet = oneOf('not-masqueraded', 'not-masqueraded-2', 'masqueraded-from');
  const set = oneOf(...SETS);
  const range = oneOf(...elements);
  // Mostly there.
  const linkLocal = protocol === 'ip' ? '169.254.0.0/16' : 'fe80::/10';
  const comment = oneOf('', ...COMMENTS.map((text) => `comment "${text}"`));
  const element = line(range, oneOf('', 'counter packets 5 bytes 500'), comment);
  const rule = line(
    oneOf(
      '',
      ...SETS.map((name) => `${protocol} daddr @${name}`),
      'meta l4proto tcp',
      'numgen random mod 2 < 1',
    ),
    oneOf(
      'accept',
      'counter masquerade fully-random',
      'counter return',
      'jump foreign-chain',
      'goto foreign-chain',
      `${protocol} daddr vmap @foreign-map`,
      'counter name foreign-counter',
      'quota name foreign-quota drop',
      'log prefix "a, b } "',
    ),
    comment,
  );
  const position = fc.nat(6).map((index) => `handle #${index}`);
  const properties = oneOf(
    `type ${type}; flags interval;`,
    `type ${type}; flags interval; counter; size 2;`,
    `type ${type}; flags constant, interval; counter; elements = { ${elements[0]} };`,
    `type ${type}; flags interval; auto-merge;`,
    `type ${type}; flags interval, timeout; timeout 1h; gc-interval 10s;`,
    `type ${type}; flags dynamic, timeout; counter;`,
    `type ${type}; counter; policy memory; comment "${COMMENTS[2]}";`,
    'type inet_service; flags interval;',
    `type ${type} . inet_service; flags interval; counter;`,
  );
  // A set that a rule uses cannot be deleted.
  const withoutSet = ownSet.map(
    (name) => `flush chain ${table} postrouting; delete set ${table} ${name}; add set ${table} ${name}`,
  );
  const common = [
    line('add element', table, set, '{', element, '}'),
    line('add element', table, set, '{', range, ',', range, '}'),
    line('delete element', table, set, '{', oneOf(linkLocal, linkLocal, ...elements), '}'),
    line('add element', table, 'foreign-map {', range, ':', oneOf('accept', 'jump foreign-chain'), '}'),
    line(oneOf('add', 'insert'), 'rule', table, chain, rule),
    line(oneOf('insert', 'add', 'replace'), 'rule', table, 'postrouting', position, rule),
    line('delete rule', table, 'postrouting', position),
  ];
  const rare = [
    line('flush set', table, set),
    line(oneOf('flush', 'delete'), 'chain', table, chain),
    line('rename chain', table, 'postrouting foreign-name'),
    line('add chain', table, 'postrouting { policy', oneOf('drop', 'accept'), '; }'),
    line(
      `delete chain ${table} postrouting; add chain ${table} postrouting { type`,
      oneOf('nat', 'filter'),
      'hook postrouting priority',
      oneOf('srcnat', 'srcnat + 10', '-5'),
      '; policy accept; }',
    ),
    line(withoutSet, '{', properties, '}'),
    line(withoutSet, '{', properties, `}; add element ${table}`, set, '{', range, 'timeout 1h }'),
    line(`add table ${table} { flags dormant; }`),
    line(`delete table ${table}`),
  ];
  const statement = fc.oneof(
    ...common.map((arbitrary) => ({ arbitrary, weight: 4 })),
    ...rare.map((arbitrary) => ({ arbitrary, weight: 1 })),
  );
  return statement.map((nft) => ({ protocol, nft }));
}

const SETS = ['not-masqueraded', 'not-masqueraded-2', 'masqueraded-from', 'foreign-set'] as const;
const OWN_CHAINS = ['IP-MASQ-AGENT', 'IP-MASQ-AGENT-FROM'] as const;

function chainEdits(protocol: Protocol): fc.Arbitrary<Edit> {
  const prefixes = ADDRESSES[protocol].elements.filter((text) => text.includes('/'));
  const chain = oneOf(...OWN_CHAINS, 'POSTROUTING', ...OWN_CHAINS, 'FOREIGN', 'PREROUTING', 'OUTPUT');
  const address = fc.oneof(
    fc.constant([]),
    fc.tuple(oneOf('-d', '-s'), oneOf(...prefixes)),
    fc.constant(['-m', 'addrtype', '!', '--dst-type', 'LOCAL']),
  );
  const comment = oneOf(...COMMENTS, 'x'.repeat(255)).map((text) => ['-m', 'comment', '--comment', text]);
  const target = fc.oneof(
    fc.constant([]),
    fc.tuple(oneOf('-j', '-g'), oneOf(...OWN_CHAINS, ...OWN_CHAINS, 'FOREIGN')),
    fc.tuple(fc.constant('-j'), oneOf('ACCEPT', 'RETURN', 'MASQUERADE')),
  );
  const rule = fc
    .tuple(address, fc.oneof(fc.constant([]), comment), target)
    .map((parts): readonly string[] => parts.flat());
  const number = fc.integer({ min: 1, max: 4 }).map(String);
  const args = fc.oneof(
    fc.tuple(oneOf('-A', '-I'), chain, rule),
    fc.tuple(oneOf('-I', '-R'), chain, number, rule),
    fc.tuple(fc.constant('-D'), chain, number),
    fc.tuple(oneOf('-F', '-X'), chain),
    fc.tuple(fc.constant('-N'), oneOf('FOREIGN', 'FOREIGN', ...OWN_CHAINS)),
  );
  return args
    .map((parts) => ({ protocol, iptables: parts.flat() }))
    .filter(({ iptables }) => !leadsFromOtherHook(iptables));
}

/** If a rule of another hook leads to a chain, the kernel refuses MASQUERADE in that chain: no agent can repair its rules then. */
function leadsFromOtherHook([, chain = '', ...rule]: readonly string[]): boolean {
  return (
    ['PREROUTING', 'OUTPUT'].includes(chain) &&
    (rule.includes('-j') || rule.includes('-g')) &&
    !['ACCEPT', 'RETURN'].includes(rule.at(-1) ?? '')
  );
}
