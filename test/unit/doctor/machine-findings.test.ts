import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PortRange } from '../../../lib/dataplane/ports.ts';
import { conntrackFindings, portFindings } from '../../../lib/doctor/machine-findings.ts';
import { conntrackTable } from '../../../lib/node/conntrack-table.ts';
import { hostWith } from '../dataplane/support.ts';

/** As Linux writes them; of two CPUs. */
const STAT = `entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart
000003e3  00000000 00000000 00000000 00000006 0000034f 00000000 00000002 00000000 00000000 00000010 00000001 00000000  00000000 00000000 00000000 00000000
000003e3  00000000 00000000 00000000 00000001 000001d9 00000000 00000003 00000000 00000000 00000002 00000000 00000000  00000000 00000000 00000000 00000000
`;

function hostOf(count: string, max: string, stat = STAT) {
  const files: Readonly<Record<string, string>> = {
    '/proc/sys/net/netfilter/nf_conntrack_count': count,
    '/proc/sys/net/netfilter/nf_conntrack_max': max,
    '/proc/net/stat/nf_conntrack': stat,
  };
  return { ...hostWith({}), readText: async (path: string) => files[path] };
}

describe('the table of connection tracking', () => {
  for (const [count, max, expected] of [
    ['995\n', '1000\n', { entries: 995, most: 1_000, dropped: 19 }],
    ['', '', undefined],
    ['5\n', '0\n', undefined],
  ] as const)
    it(`is read: ${JSON.stringify([count, max])}`, async () => {
      assert.deepEqual(await conntrackTable(hostOf(count, max).readText), expected);
    });

  it('may not be countable', async () => {
    assert.equal((await conntrackTable(hostOf('1', '10', '').readText))?.dropped, 0);
  });

  it('is a finding if it is nearly full', async () => {
    assert.deepEqual(await conntrackFindings(hostOf('899', '1000')), []);
    const [finding] = await conntrackFindings(hostOf('900', '1000'));
    assert.equal(finding?.kind, 'conntrack-full');
    assert.deepEqual(finding.evidence, [
      'nf_conntrack_count = 900, nf_conntrack_max = 1000',
      'refused or forgotten early so far: 19',
    ]);
    assert.match(finding.remedy, /nf_conntrack_max/);
  });
});

describe('--to-ports', () => {
  const found = (toPorts: readonly PortRange[]) => portFindings(hostWith({}), { toPorts });

  it('is a finding if it holds NodePorts or, on a node whose links are not known, ports of a tunnel', async () => {
    const [finding] = await found([{ first: 8_000, last: 40_000 }]);
    assert.equal(finding?.kind, 'taken-ports');
    assert.match(finding.message, /holds 30000-32767 \(NodePorts\), 8472 \(VXLAN\):/);
    assert.match(finding.remedy, /--to-ports=8000-8471,8473-29999,32768-40000$/);
    assert.match((await found([{ first: 51_820, last: 51_820 }]))[0]?.message ?? '', /WireGuard/);
  });

  it('is none without such ports, and if it is not set', async () => {
    assert.deepEqual(await found([{ first: 10_000, last: 29_999 }]), []);
    assert.deepEqual(await found([]), []);
  });
});
