import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { detectMode } from '../../lib/dataplane/iptables/detect.ts';
import { createBox } from '../lab/box.ts';
import { succeed } from '../lab/run.ts';
import { IS_ROOT } from '../lab/user.ts';
import { boxHost } from './support.ts';

/** Commands that make the node look as it does, and the mode that the agent must choose then. */
const NODES: readonly {
  readonly node: string;
  readonly setUp: readonly string[];
  readonly mode: string;
  readonly reason: RegExp;
}[] = [
  {
    node: 'an empty node',
    setUp: [],
    mode: 'nft',
    reason: /no legacy table is in use|0 rules in nft mode, 0 in legacy mode/,
  },
  {
    node: 'a node where kubelet left its hint in nft mode',
    setUp: [
      'iptables-nft -t mangle -N KUBE-IPTABLES-HINT',
      'iptables-legacy -t nat -A POSTROUTING -j ACCEPT',
    ],
    mode: 'nft',
    reason: /kubelet keeps KUBE-IPTABLES-HINT/,
  },
  {
    node: 'a node where an older kubelet left its canary in nft mode',
    setUp: ['iptables-nft -t mangle -N KUBE-KUBELET-CANARY'],
    mode: 'nft',
    reason: /kubelet keeps KUBE-KUBELET-CANARY/,
  },
  {
    node: 'a node where kubelet left its hint in legacy mode',
    setUp: [
      'iptables-legacy -t mangle -N KUBE-IPTABLES-HINT',
      'iptables-nft -t nat -A POSTROUTING -j ACCEPT',
    ],
    mode: 'legacy',
    reason: /kubelet keeps KUBE-IPTABLES-HINT/,
  },
  {
    node: 'a node with hints in both modes',
    setUp: [
      'iptables-legacy -t mangle -N KUBE-IPTABLES-HINT',
      'iptables-nft -t mangle -N KUBE-IPTABLES-HINT',
    ],
    mode: 'nft',
    reason: /kubelet keeps/,
  },
  {
    node: 'a node without kubelet and with more legacy rules',
    setUp: [
      'iptables-legacy -t nat -A POSTROUTING -j ACCEPT',
      'iptables-legacy -t nat -A PREROUTING -j ACCEPT',
      'iptables-nft -t nat -A OUTPUT -j ACCEPT',
    ],
    mode: 'legacy',
    reason: /1 rules in nft mode, 2 in legacy mode/,
  },
  {
    node: 'a node without kubelet and with as many rules in both modes',
    setUp: [
      'iptables-legacy -t nat -A POSTROUTING -j ACCEPT',
      'iptables-nft -t nat -A POSTROUTING -j ACCEPT',
    ],
    mode: 'nft',
    reason: /1 rules in nft mode, 1 in legacy mode/,
  },
];

describe('the iptables mode', () => {
  for (const { node, setUp, mode, reason } of NODES) {
    it(`is ${mode} on ${node}`, async () => {
      await using box = await createBox();
      await succeed(box.run('sh', ['-ec', setUp.join('\n')]));
      const detected = await detectMode(boxHost(box).host, 'auto');
      assert.equal(detected.mode, mode);
      assert.match(detected.reason, reason);
    });
  }

  it('is what the flag says, whatever kubelet uses', async () => {
    await using box = await createBox();
    await succeed(box.run('iptables-nft', ['-t', 'mangle', '-N', 'KUBE-IPTABLES-HINT']));
    assert.equal((await detectMode(boxHost(box).host, 'legacy')).mode, 'legacy');
  });

  // In a user namespace the file that tells of legacy tables is somebody else's: there is no way but to ask.
  it('is found on an empty node without the legacy command, which would load its modules', {
    skip: !IS_ROOT && 'only root may read /proc/net/ip_tables_names',
  }, async () => {
    await using box = await createBox();
    const { host, commands } = boxHost(box);
    await detectMode(host, 'auto');
    assert.deepEqual(
      commands.filter((command) => command.startsWith('iptables-legacy')),
      [],
    );
    assert.equal((await box.run('cat', ['/proc/net/ip_tables_names'])).stdout, '');
  });
});
