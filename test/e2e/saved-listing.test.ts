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
});
