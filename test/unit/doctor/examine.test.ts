import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Family } from '../../../lib/cidr/address.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import { renderChain, renderJump, renderQuotedJump } from '../../../lib/dataplane/iptables/chain.ts';
import type { DataplaneOptions } from '../../../lib/dataplane/options.ts';
import { examine } from '../../../lib/doctor/examine.ts';
import { FINDING_MEANING } from '../../../lib/doctor/finding.ts';
import { holderFindings, ownRuleFindings } from '../../../lib/doctor/rule-findings.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { checksOf } from '../../../lib/policy/checks.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { prefixFrom } from '../cidr/support.ts';
import { directoryOf, mergedOf, OPTIONS } from '../config/support.ts';
import { OWN } from '../dataplane/support.ts';

/** A node, as far as it differs from one that only lacks the agent's process, and netlink. */
interface Node {
  /** Undefined if there is no config directory. */
  readonly files?: Readonly<Record<string, string>> | undefined;
  /** Rules of IPv4 in `nat`, as `iptables -S` prints them. */
  readonly nft?: readonly string[];
  readonly legacy?: readonly string[];
  /** Tools that are not installed. */
  readonly without?: RegExp;
  readonly version?: string;
  /** What each other command of iptables prints to standard error when it fails. */
  readonly failure?: string;
  readonly proc?: Readonly<Record<string, string>>;
  readonly options?: Partial<DataplaneOptions>;
  readonly findPods?: Parameters<typeof examine>[0]['findPods'];
}

const CONFIG = { 'ip-masq-a': 'nonMasqueradeCIDRs: [10.0.0.0/8]' };
const ADDRESS = {
  'ip-masq-a':
    'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeAddresses: [{destination: 0.0.0.0/0, address: 203.0.113.0/24}]',
};
const RULES = { chain: OWN, randomFully: true, toPorts: [] };
const CHAIN = renderChain(compilePolicy(mergedOf(CONFIG), 'IPv4'), RULES).map(
  ({ chain, spec }) => `-A ${chain} ${spec}`,
);
const JUMP = `-A POSTROUTING ${renderJump(OWN)}`;
const V2 = `-A POSTROUTING ${renderQuotedJump(OWN)}`;
/** Nodes, and the kinds of all that is found there. Without netlink, nftables is not read. */
const NODES: readonly (readonly [what: string, node: Node, found: string])[] = [
  ['no agent', {}, 'no-agent not-read'],
  ['no config directory', { files: undefined }, 'config-invalid no-agent'],
  ['an invalid config', { files: { 'ip-masq-a': 'masqLinkLocal: 1' } }, 'config-invalid no-agent'],
  [
    'a config file that cannot be read',
    { files: { 'ip-masq-a': '#'.repeat(2 ** 20 + 1) } },
    'config-invalid no-agent',
  ],
  ['no config file', { files: {} }, 'no-agent out-of-sync not-read'],
  [
    'nothing inside',
    { files: { 'ip-masq-a': 'nonMasqueradeCIDRs: []' } },
    'nothing-inside no-agent out-of-sync not-read',
  ],
  [
    'everything inside',
    { files: { 'ip-masq-a': 'nonMasqueradeCIDRs: [0.0.0.0/0]' } },
    'everything-inside no-agent out-of-sync not-read',
  ],
  [
    'an address that the node does not have',
    { files: ADDRESS },
    'node-address no-agent out-of-sync not-read',
  ],
  ['pods outside', { findPods: podsOf('IPv4') }, 'pods-masqueraded no-agent not-read'],
  [
    'routes that cannot be read',
    { findPods: () => Promise.reject(new NetlinkError('denied', 'x', 'EPERM')) },
    'not-read no-agent not-read',
  ],
  ['no iptables', { without: /./ }, 'tool-missing'],
  ['no ip6tables', { without: /^ip6tables/ }, 'no-agent not-read'],
  ['no iptables-restore', { without: /restore/ }, 'no-agent tool-missing not-read'],
  ['an old iptables', { version: '1.4.21' }, 'tool-missing'],
  ['a kernel that refuses', { failure: 'Permission denied' }, 'kernel-refused not-read'],
  ['a missing rule', { nft: [...CHAIN.slice(1), JUMP] }, 'no-agent out-of-sync not-read'],
  ['the jump of v2', { nft: [...CHAIN, V2] }, 'older-agent not-read'],
  ['a chain in the other mode', { legacy: CHAIN }, 'no-agent not-read chain-elsewhere'],
  [
    'a port of a tunnel for masqueraded connections, because it does not know the links',
    { options: { toPorts: [{ first: 51_820, last: 51_820 }] } },
    'taken-ports no-agent out-of-sync not-read',
  ],
];

describe('the doctor', () => {
  const all = new Set<string>();

  for (const [what, node, found] of NODES)
    it(`finds ${what}`, async () => {
      const findings = await examined(node);
      assert.equal(findings.map(({ kind }) => kind).join(' '), found);
      for (const { kind, message, remedy } of findings) {
        all.add(kind);
        assert.ok(message.length > 1 && remedy.length > 1, `${kind} says what it is, and what to do`);
      }
    });

  it('finds an agent that does not answer, and nothing if it answers', () => {
    const survey = { used: [], others: [] } as unknown as Parameters<typeof holderFindings>[1];
    const agent = { kind: 'agent', pid: 7, introduction: { version: 'v1', flags: [] } } as const;
    assert.deepEqual(holderFindings(agent, survey), []);
    const [finding] = holderFindings({ ...agent, introduction: undefined }, survey);
    all.add(`${finding?.kind}`);
  });

  it('asks a running agent why its rules differ, and looks for an agent if none runs', () => {
    const plan = { current: [], found: ['rules differ'], wanted: [] };
    const differing = { family: 'IPv4', plan } as unknown as Parameters<typeof ownRuleFindings>[0];
    const [running] = ownRuleFindings(differing, { kind: 'agent', pid: 7, introduction: undefined });
    assert.match(`${running?.remedy}`, /ip-masq-agent status and the log of the agent say which program/);
    const [none] = ownRuleFindings(differing, { kind: 'none' });
    assert.match(`${none?.remedy}`, /check that the agent runs/);
  });

  it('finds each kind here', () => {
    // These are read over netlink alone.
    all.add('flows-against-policy').add('pods-left-out').add('uplink-address');
    // An agent tells of it.
    all.add('config-file-gone');
    assert.deepEqual([...all].toSorted(), Object.keys(FINDING_MEANING).toSorted());
  });
});

/** A node with pods of a family, which any policy of it masquerades. */
function podsOf(
  family: Family,
  text = family === 'IPv4' ? '172.16.0.0/12' : 'fd00::/8',
): NonNullable<Node['findPods']> {
  const range = prefixFrom(text);
  const found = { family, range, routes: 1, message: 'outside', evidence: [], remedy: 'list them' };
  return async (policies) => (policies.some((policy) => policy.family === family) ? [found] : []);
}

async function examined(node: Node) {
  const { files } = { files: CONFIG, ...node };
  await using dir = await directoryOf(files ?? {});
  const { findings } = await examine({
    loading: {
      configDir: files === undefined ? `${dir.path}/absent` : dir.path,
      config: { ...OPTIONS, families: ['IPv4'], checkVerdicts: checksOf(['IPv4'], []) },
      resyncInterval: 1,
    },
    dataplane: { ...RULES, backend: 'iptables', mode: 'nft', families: ['IPv4'], ...node.options },
    host: hostOf(node),
    accepted: [],
    findPods: node.findPods ?? (async () => []),
    retry: { timeoutMs: 0, signal: new AbortController().signal, onRetry: () => {} },
  });
  return findings;
}

/** A machine without netlink, whose iptables prints the rules of the node. */
function hostOf({
  nft = [...CHAIN, JUMP],
  legacy,
  proc = {},
  without,
  version = '1.8.9',
  failure,
}: Node): Host {
  const nat: Readonly<Record<string, readonly string[]>> = {
    ...{ 'iptables-nft': nft, 'ip6tables-nft': [] },
    ...(legacy && { 'iptables-legacy': legacy, 'ip6tables-legacy': [] }),
  };
  const tables = legacy && { '/proc/net/ip_tables_names': 'nat\n' };
  return {
    readText: async (path) => ({ ...tables, ...proc })[path] ?? '',
    run: async (file, args) => {
      const lines = nat[file.replace('-restore', '')];
      if (lines === undefined || without?.test(file)) throw new DataplaneError('missing', file, 'install it');
      const mode = /nft/.test(file) ? 'nf_tables' : 'legacy';
      if (args[0] === '--version') return printed(`iptables v${version} (${mode})`);
      if (failure !== undefined) return { code: 4, stdout: '', stderr: failure };
      const [table, command = '', chain = ''] = args.slice(args.indexOf('-t') + 1);
      return queried(table === 'nat' ? lines : [], command, chain);
    },
  };
}

const printed = (stdout: string) => ({ code: 0, stdout, stderr: '' });

/** What iptables answers to -S, -C and -n -L. */
function queried(nat: readonly string[], command: string, chain: string) {
  if (command === '-n') return printed(`Chain ${OWN} (1 references)\n`);
  const lines = nat.filter((line) => line.startsWith(`-A ${chain} `));
  const isBuiltIn = /^[A-Z]+$/.test(chain);
  if (command === '-S' && (isBuiltIn || lines.length > 0))
    return printed([isBuiltIn ? `-P ${chain} ACCEPT` : `-N ${chain}`, ...lines, ''].join('\n'));
  // Jumps are looked for by the words that were printed.
  if (command === '-C' && lines.length > 0) return printed('');
  return { code: 1, stdout: '', stderr: 'No chain/target/match by that name.' };
}
