import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PortRange } from '../../../lib/dataplane/ports.ts';
import { portFindings } from '../../../lib/doctor/machine-findings.ts';
import { hostWith } from '../dataplane/support.ts';

describe('--to-ports', () => {
  const found = (toPorts: readonly PortRange[]) => portFindings(hostWith({}), { toPorts });

  it('is a finding if it holds NodePorts or, on a node whose links are not known, ports of a tunnel', async () => {
    const [finding] = await found([{ first: 8_000, last: 40_000 }]);
    assert.equal(finding?.kind, 'taken-ports');
    assert.match(finding.message, /holds 30000-32767 \(NodePorts\), 8472 \(VXLAN\):/);
    assert.match((await found([{ first: 51_820, last: 51_820 }]))[0]?.message ?? '', /WireGuard/);
  });

  it('is none without such ports, and if it is not set', async () => {
    assert.deepEqual(await found([{ first: 10_000, last: 29_999 }]), []);
    assert.deepEqual(await found([]), []);
  });
});
