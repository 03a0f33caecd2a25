import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createNode, eventually, inside, SERVED } from './support.ts';

const INSIDE = (...cidrs: string[]) => ({ 'ip-masq-a': inside(...cidrs) });
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
    await writeFile(join(node.dir, 'saved'), saved);
    await node.run('nft', '-f', join(node.dir, 'saved'));
    await eventually(
      async () => (await node.run('nft', ...LISTING)) === wanted,
      () => `the table as it was; the log is ${agent.log()}`,
    );
    await agent.stop();
  });

  for (const flags of [
    ['--netlink=auto'],
    ['--netlink=off', '--backend=iptables'],
    ['--iptables-mode=legacy'],
  ]) {
    it(`are told with the foreign rule that keeps a chain, ${flags}`, async () => {
      await using node = await createNode();
      const from = 'masqueradeFromCIDRs: [10.244.0.0/16]\n';
      const volume = await node.volume({ 'ip-masq-a': `${INSIDE('10.0.0.0/8')['ip-masq-a']}${from}` });
      const once = () => node.agent('--once', ...flags);
      assert.equal((await once()).code, 0);
      const tool = flags[0] === '--iptables-mode=legacy' ? 'iptables-legacy' : 'iptables-nft';
      await node.run(tool, '-t', 'nat', '-A', 'POSTROUTING', '-p', 'udp', '-j', 'IP-MASQ-AGENT-FROM');
      await volume.swap(INSIDE('10.0.0.0/8'));
      for (const sync of ['the change', 'a new process']) {
        const { code, stderr } = await once();
        assert.equal(code, 0, stderr);
        const warning =
          /"warn".*IP-MASQ-AGENT-FROM stays, empty, .*: -A POSTROUTING -p udp -j IP-MASQ-AGENT-FROM;/;
        assert.match(stderr, warning, sync);
        const listing = await node.run(tool, '-t', 'nat', '-S', 'IP-MASQ-AGENT-FROM');
        assert.equal(listing, '-N IP-MASQ-AGENT-FROM\n', sync);
      }
    });
  }
});
