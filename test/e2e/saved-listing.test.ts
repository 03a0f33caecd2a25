import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, eventually, inside, SERVED } from './support.ts';

const INSIDE = (cidr: string) => ({ 'ip-masq-a': inside(cidr) });
const LISTING = ['-s', 'list', 'table', 'ip', 'ip-masq-agent'];

describe('rules that do not stay', () => {
  it('are written anew, whole, after a listing that was saved earlier is loaded again', async () => {
    await using node = await createNode();
    const volume = await node.volume(INSIDE('128.0.0.0/1'));
    const agent = node.start('--backend=nftables', '--resync-interval=1h', '--sync-timeout=4s', SERVED);
    await agent.logged(/metrics, probes and status on/);
    const saved = await node.run('nft', ...LISTING);
    await volume.swap(INSIDE('224.0.0.0/4'));
    await agent.logged(/- element 128\.0\.0\.0/);
    const wanted = await node.run('nft', ...LISTING);
    await node.nft(saved);
    await eventually(
      async () => (await node.run('nft', ...LISTING)) === wanted,
      () => `the table as it was; the log is ${agent.log()}`,
    );
    await agent.stop();
  });

  it('are told with what iptables says if a foreign rule keeps a chain, at the change and by a new process', async () => {
    await using node = await createNode();
    const volume = await node.volume({
      'ip-masq-a': `${inside('10.0.0.0/8')}masqueradeFromCIDRs: [10.244.0.0/16]\n`,
    });
    const once = () => node.agent('--once', '--iptables-mode=legacy');
    assert.equal((await once()).code, 0);
    const rule = ['-A', 'POSTROUTING', '-p', 'udp', '-j', 'IP-MASQ-AGENT-FROM'];
    await node.run('iptables-legacy', '-t', 'nat', ...rule);
    await volume.swap(INSIDE('10.0.0.0/8'));
    for (const sync of ['the change', 'a new process']) {
      const { code, stderr } = await once();
      assert.equal(code, 0, stderr);
      assert.match(
        stderr,
        /"warn".*IP-MASQ-AGENT-FROM stays, empty, because iptables does not delete it: .*Too many links/,
        sync,
      );
    }
  });
});
