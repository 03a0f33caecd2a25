import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Host, ToolResult } from '../../../lib/dataplane/host.ts';
import { iptablesDataplane } from '../../../lib/dataplane/iptables/iptables.ts';
import { Netlink } from '../../../lib/dataplane/netlink.ts';
import { CHAIN } from '../../../lib/dataplane/nftables/names.ts';
import { openNftables } from '../../../lib/dataplane/nftables/nftables.ts';
import { tableLines } from '../../../lib/dataplane/nftables/objects.ts';
import { renderTable } from '../../../lib/dataplane/nftables/table.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { mergedOf } from '../config/support.ts';
import { type Answers, fakeNetlink, hostWith } from './support.ts';

/** What nft says on a node without the table. */
const NO_TABLE: Answers = {
  'nft --version': { stdout: 'nftables v1.0.6' },
  nft: { code: 1, stderr: 'No such file or directory' },
};
const OPTIONS = { chain: 'X', randomFully: false, toPorts: [] };

// Other versions of nft keep other notes in a table, which no nft prints.
it('the set is read again after another program has written the same table anew', async () => {
  const policy = compilePolicy(mergedOf({ x: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' }), 'IPv4');
  const table = renderTable(policy, OPTIONS);
  const { ranges } = table;
  let [id, fingerprint, held] = [1, 'by one nft', ranges];
  const thing = async () => ({ fingerprint });
  const netlink = fakeNetlink({
    generation: async () => ({ id, process: 'nft' }),
    table: thing,
    set: async ({ set }) => (set === 'not-masqueraded' ? thing() : undefined),
    chain: thing,
    rules: async () => [],
    elements: async () => {
      const elements = held.map((range) => ({ ...range, packets: undefined }));
      return { ranges: elements, catchAll: false, torn: false };
    },
  });
  const listing = ['table ip ip-masq-agent {', ...tableLines(table), '}', ''].join('\n');
  const dataplane = await openNftables(OPTIONS, { ...hostThat({ stdout: listing }), netlink });
  const observed = await dataplane.observe('IPv4');
  assert.equal(observed.plan(policy), undefined);
  observed.trust(policy);
  assert.equal((await dataplane.observe('IPv4')).isTrusted, true);
  [id, fingerprint, held] = [2, 'by another nft', ranges.slice(1)];
  const changed = await dataplane.observe('IPv4');
  assert.deepEqual([changed.isTrusted, changed.plan(policy)?.found], [false, ['elements differ']]);
});

it('a table with a map that another program has added is read and planned anew', async () => {
  const policy = compilePolicy(mergedOf({ x: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' }), 'IPv4');
  const shape = tableLines(renderTable(policy, OPTIONS));
  const elements = 'elements = { 8.8.8.8 : return, 9.0.0.0/8 : accept }';
  const map = ['map m {', 'type ipv4_addr : verdict', elements, '}'];
  const listing = ['table ip ip-masq-agent {', ...map, ...shape, '}', ''].join('\n');
  const dataplane = await openNftables(OPTIONS, hostThat({ stdout: listing }));
  assert.ok((await dataplane.observe('IPv4')).plan(policy));
});

// The look over netlink asks for this chain by its name: of another one it would not see a change.
it('the table has the chain that is looked at, and no other', () => {
  const { chains } = renderTable({ family: 'IPv4', from: [], entries: [] }, OPTIONS);
  const heads = chains.map(({ head }) => head);
  assert.deepEqual(heads, [`chain ${CHAIN}`]);
});

it('a second set that no rule names is seen, and goes with the whole table', async () => {
  const [policy, other] = ['', 'masqueradeFromCIDRs: [10.244.0.0/16]\n'].map((text) =>
    compilePolicy(mergedOf({ x: `nonMasqueradeCIDRs: []\nmasqLinkLocal: true\n${text}` }), 'IPv4'),
  );
  assert.ok(policy && other);
  const { sets } = renderTable(other, OPTIONS);
  const shape = tableLines({ ...renderTable(policy, OPTIONS), sets });
  const listing = ['table ip ip-masq-agent {', ...shape, '}', ''].join('\n');
  const dataplane = await openNftables(OPTIONS, hostThat({ stdout: listing }));
  const plan = (await dataplane.observe('IPv4')).plan(policy);
  assert.deepEqual([plan?.found, plan?.remakes], [['rules differ'], true]);
});

// Debian's image without netbase has no /etc/protocols.
it('a listing with numbers of protocols is equal to one with names', async () => {
  const options = {
    ...OPTIONS,
    toPorts: [
      { first: 1024, last: 29_999 },
      { first: 40_000, last: 50_000 },
    ],
  };
  const policy = compilePolicy(
    mergedOf({
      x: 'masqueradeAddresses: [{destination: 9.0.0.0/8, address: 198.51.100.0/24}]\nmasqLinkLocal: true\n',
    }),
    'IPv4',
  );
  const shape = tableLines(renderTable(policy, options));
  const numbers = { tcp: 6, udp: 17, sctp: 132 };
  const planFor = async (change: (line: string) => string) => {
    const listing = ['table ip ip-masq-agent {', ...shape.map(change), '}', ''].join('\n');
    const dataplane = await openNftables(options, hostThat({ stdout: listing }));
    return (await dataplane.observe('IPv4')).plan(policy);
  };
  const inNumbers = (line: string) =>
    line.replace(/(?<=meta l4proto )(tcp|udp|sctp)/, (_, name: keyof typeof numbers) => `${numbers[name]}`);
  assert.notDeepEqual(shape.map(inNumbers), shape);
  assert.equal(await planFor(inNumbers), undefined);
  assert.ok(await planFor((line) => line.replace('l4proto tcp', 'l4proto 17')));
});

// Advice to delete the table would be wrong: nft has not said what is in it.
for (const [what, listing] of [
  ['nothing', ''],
  ['garbage', 'hello\n'],
  ['another table', 'table ip theirs {\n}\n'],
  ['half a table', 'table ip ip-masq-agent {\n\tset x {\n\t}\n'],
] as const)
  it(`nft that prints ${what} and exits 0 has printed no listing`, async () => {
    const dataplane = await openNftables(OPTIONS, hostThat({ stdout: listing }));
    await assert.rejects(dataplane.observe('IPv4'), ({ failure, message, remedy }: DataplaneError) => {
      assert.deepEqual([failure, message], ['refused', 'nft printed no listing of table ip ip-masq-agent']);
      assert.doesNotMatch(remedy, /delete/);
      return true;
    });
  });

// So nft 1.0.6 prints it on Linux 6.1 without `nft_masq` and `nft_fib*`. The same error at the name of a table is a race.
for (const [part, failure, message] of [
  ['masquerade', 'unsupported', 'nft failed: the kernel lacks nft_masq'],
  [
    'fib daddr type local',
    'unsupported',
    'nft failed: the kernel lacks nft_fib_ipv4 (for IPv6, nft_fib_ipv6)',
  ],
  [
    'ip-masq-agent',
    'raced',
    'nft failed: /dev/stdin:3:13-25: Error: Could not process rule: No such file or directory',
  ],
] as const)
  it(`a kernel that does not know what it is told is told from a race: ${part}`, async () => {
    const line = 'add rule ip ip-masq-agent postrouting fib daddr type local masquerade';
    const first = line.indexOf(part) + 1;
    const at = `/dev/stdin:3:${first}-${first + part.length - 1}`;
    const stderr = `${at}: Error: Could not process rule: No such file or directory\n${line}\n${' '.repeat(first - 1)}^^^\n`;
    const answers = { ...NO_TABLE, 'nft -f -': { code: 1, stderr } };
    const dataplane = await openNftables(OPTIONS, hostWith(answers));
    const plan = (await dataplane.observe('IPv4')).plan(compilePolicy(mergedOf({}), 'IPv4'));
    await assert.rejects(plan?.apply() ?? assert.fail(), (error: DataplaneError) => {
      assert.deepEqual([error.failure, error.message], [failure, message]);
      return true;
    });
  });

// So nft 1.0.6 prints it on Linux 6.1 without nf_tables.
it('a kernel without nf_tables does not support these rules', async () => {
  const stderr = 'netlink: Error: cache initialization failed: Invalid argument\n';
  const dataplane = await openNftables(OPTIONS, hostThat({ code: 1, stderr }));
  await assert.rejects(dataplane.observe('IPv4'), {
    failure: 'unsupported',
    remedy: /nf_tables: .*--backend=iptables/,
  });
});

/** A host without netlink, whose nft says this. */
function hostThat(nft: Partial<ToolResult>): Host {
  return hostWith({ 'nft --version': { stdout: 'nftables v1.0.6' }, nft });
}

it('no event is waited for any more if netlink does not work here', async () => {
  const netlink = new Netlink(
    {
      openRequests: () => {
        throw new NetlinkError('denied', 'no');
      },
      openWatch: () => assert.fail(),
    },
    () => {},
  );
  const host = { ...hostWith({ ...NO_TABLE, iptables: { code: 1 } }), netlink };
  const detected = { mode: 'nft', suffix: '', version: '1.8.9', reason: '' } as const;
  const iptables = iptablesDataplane(detected, OPTIONS, host);
  const nftables = await openNftables(OPTIONS, host);
  assert.ok(iptables.knownUntil && nftables.knownUntil);
  await nftables.observe('IPv4');
  assert.deepEqual([iptables.knownUntil, nftables.knownUntil], [undefined, undefined]);
});
