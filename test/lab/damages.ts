import { renderJump, renderQuotedJump } from '../../lib/dataplane/iptables/chain.ts';
import type { Family } from '../../lib/policy/policy.ts';
import { setInUse } from './own-sets.ts';

/** What another program does to the agent's rules of a family, and what the agent then finds. */
interface Damage {
  readonly found: readonly string[];
  /** For sh. @param tool of iptables, in the mode and family of the rules */
  readonly script: (family: Family, tool: string) => string;
}

const CHAIN = 'IP-MASQ-AGENT';
const JUMP = renderJump(CHAIN);
const JUMP_OF_V2 = renderQuotedJump(CHAIN);
const IP = { IPv4: 'ip', IPv6: 'ip6' } as const;

const iptables =
  (...commands: readonly string[]): Damage['script'] =>
  (_, tool) =>
    commands.map((args) => `${tool} -t nat ${args}`).join('\n');

const restore =
  (...lines: readonly string[]): Damage['script'] =>
  (_, tool) =>
    `${tool}-restore --noflush <<'END'\n${['*nat', ...lines, 'COMMIT', 'END'].join('\n')}`;

/** In iptables, by what is done. The config lists two ranges or more, and the jump is in POSTROUTING once. */
const IPTABLES = {
  'a flushed chain': { found: ['rules differ'], script: iptables(`-F ${CHAIN}`) },
  'a deleted rule': { found: ['rules differ'], script: iptables(`-D ${CHAIN} 2`) },
  'a rule that somebody put into the chain': {
    found: ['rules differ'],
    script: iptables(`-I ${CHAIN} -p tcp --dport 53 -j ACCEPT`),
  },
  'rules in another order': {
    found: ['rules differ'],
    script: (_, tool) =>
      `first=$(${tool} -t nat -S ${CHAIN} 1 | sed 's/^-A ${CHAIN}/-I ${CHAIN} 2/')\n${tool} -t nat -D ${CHAIN} 1\neval "${tool} -t nat $first"`,
  },
  'a deleted jump': { found: ['jump missing'], script: restore(`-D POSTROUTING ${JUMP}`) },
  'a jump there three times': {
    found: ['jump outdated'],
    script: restore(`-A POSTROUTING ${JUMP}`, `-I POSTROUTING 1 ${JUMP}`),
  },
  'the jump of ip-masq-agent-v2 beside the own one': {
    found: ['jump outdated'],
    script: restore(`-A POSTROUTING ${JUMP_OF_V2}`),
  },
  'the jump of ip-masq-agent-v2 in place of the own one': {
    found: ['jump outdated'],
    script: restore(`-D POSTROUTING ${JUMP}`, `-A POSTROUTING ${JUMP_OF_V2}`),
  },
  'jumps made by hand, one of them going instead of jumping': {
    found: ['jump outdated'],
    script: restore(`-I POSTROUTING 1 -j ${CHAIN}`, `-A POSTROUTING -p udp -g ${CHAIN}`),
  },
  'odd jumps, and those of other agents, between foreign rules': {
    found: ['jump outdated'],
    script: restore(
      `-I POSTROUTING 1 -m comment --comment "it's \\"quoted\\" \\\\ here" -j ${CHAIN}`,
      `-I POSTROUTING 1 -m conntrack --ctstate NEW,ESTABLISHED -j ${CHAIN}`,
      `-A POSTROUTING -p tcp -m multiport ! --dports 80,443:445 -j ${CHAIN}`,
      `-A POSTROUTING -m statistic --mode random --probability 0.5 -j ${CHAIN}`,
      `-A POSTROUTING -m limit --limit 3/min -g ${CHAIN}`,
    ),
  },
  'a deleted chain': {
    found: ['no readable chain', 'jump missing'],
    script: restore(`:${CHAIN} - [0:0]`, `-D POSTROUTING ${JUMP}`, `-X ${CHAIN}`),
  },
  // These take foreign rules too.
  'a flushed POSTROUTING': { found: ['jump missing'], script: iptables('-F POSTROUTING') },
  'a flushed ruleset': { found: ['no readable chain', 'jump missing'], script: flushAll },
  'a flushed table': { found: ['rules differ', 'jump missing'], script: iptables('-F') },
  'an emptied table': {
    found: ['no readable chain', 'jump missing'],
    script: iptables('-F', `-X ${CHAIN}`),
  },
} as const satisfies Readonly<Record<string, Damage>>;

const nft =
  (command: (table: string, words: (typeof WORDS)[Family]) => string): Damage['script'] =>
  (family) =>
    `nft -f - <<END\n${command(`${IP[family]} ip-masq-agent`, WORDS[family]).replaceAll('SET', setInUse(family))}\nEND`;

/** `large` is of the config, and holds `small`; `other` is not. */
const WORDS = {
  IPv4: { type: 'ipv4_addr', large: '10.0.0.0/8', small: '10.1.2.3', other: '8.8.8.8' },
  IPv6: { type: 'ipv6_addr', large: 'fd00::/8', small: 'fd00::2', other: '2001:4860::8' },
} as const;

const COMMENT = 'comment "ip-masq-agent: kept by ip-masq-agent, changes are undone"';
const POSTROUTING = 'postrouting { comment "ip-masq-agent: what is masqueraded"; type nat hook postrouting';

/** In nftables, by what is done. */
const NFTABLES = {
  'a deleted table': { found: ['table missing'], script: nft((table) => `delete table ${table}`) },
  'a flushed table': { found: ['rules differ'], script: nft((table) => `flush table ${table}`) },
  'a dormant table': {
    found: ['rules differ'],
    script: nft((table) => `add table ${table} { flags dormant; }`),
  },
  'a flushed chain': { found: ['rules differ'], script: nft((table) => `flush chain ${table} postrouting`) },
  'a rule that somebody put into the chain': {
    found: ['rules differ'],
    script: nft((table) => `insert rule ${table} postrouting tcp dport { 53, 54 } accept`),
  },
  'a removed element': {
    found: ['elements differ'],
    script: nft((table, { large }) => `delete element ${table} SET { ${large} }`),
  },
  'an added element': {
    found: ['elements differ'],
    script: nft((table, { other }) => `add element ${table} SET { ${other} }`),
  },
  'an element in place of a larger one': {
    found: ['elements differ'],
    script: nft(
      (table, { large, small }) =>
        `delete element ${table} SET { ${large} }; add element ${table} SET { ${small} }`,
    ),
  },
  'a set that holds all other addresses too': {
    found: ['rules differ', 'elements differ'],
    // nft 1.0.6 crashes if this is added to a set with others.
    script: nft(
      (table, { type }) =>
        `flush chain ${table} postrouting; delete set ${table} SET; table ${table} { set SET { type ${type}; flags interval; elements = { * }; }; }`,
    ),
  },
  'a flushed set': {
    found: ['elements differ'],
    script: nft((table) => `flush set ${table} SET`),
  },
  'another priority': {
    found: ['rules differ', 'elements differ'],
    script: nft(
      (table, { type }) =>
        `delete table ${table}; table ${table} { ${COMMENT}; set not-masqueraded { type ${type}; flags interval; counter; }; chain ${POSTROUTING} priority 50; masquerade; }; }`,
    ),
  },
  'the priority of older versions': { found: ['rules differ'], script: nft(olderPriority) },
  'a chain that somebody added': {
    found: ['rules differ'],
    script: nft((table) => `add chain ${table} theirs { type nat hook postrouting priority 90; }`),
  },
  'a set that somebody added': {
    found: ['rules differ'],
    script: nft((table) => `add set ${table} theirs { type inet_service; elements = { 80, 443 }; }`),
  },
  'a flushed ruleset': { found: ['table missing'], script: flushAll },
} as const satisfies Readonly<Record<string, Damage>>;

/**
 * What foreign programs do to the agent's rules. The kernel tests repair each; a test of the whole agent, of random walks or of
 * a cluster names those that show something more there.
 */
export const DAMAGES = { iptables: IPTABLES, nftables: NFTABLES } as const;

function flushAll(): string {
  return 'nft flush ruleset';
}

/** The chain as versions before the priority `srcnat + 10` made it. */
function olderPriority(table: string): string {
  return `delete chain ${table} postrouting; table ${table} { chain ${POSTROUTING} priority srcnat; counter masquerade; }; }`;
}
