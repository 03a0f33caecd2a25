import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { createNode, type RunningAgent, SERVED } from './support.ts';

const NODE_ADDRESS = '192.0.2.1';
const CONFIG = 'nonMasqueradeCIDRs: [10.1.0.0/16]\n';

/** Takes the port. */
const HOLD = `require('node:net').createServer().listen(9614, '127.0.0.1', () => console.log('held'))`;

async function serving(agent: RunningAgent): Promise<void> {
  await agent.logged(/metrics, probes and status on/);
}

describe('the endpoints of the agent', () => {
  it('never end the agent if another program has the port: it keeps the rules, and listens once the port is free', async () => {
    await using node = await createNode();
    const volume = await node.volume({ 'ip-masq-a': CONFIG });
    const holder = node.box.spawn(process.execPath, ['-e', HOLD], { stdio: ['ignore', 'pipe', 'ignore'] });
    await once(holder.stdout ?? assert.fail(), 'data');
    const agent = node.start(SERVED);
    await agent.logged(/\(another program listens there.*tries again to listen/);
    await volume.swap({ 'ip-masq-a': CONFIG.replace('10.1', '10.2') });
    await agent.logged(/"reason":"change"/);
    assert.match((await node.chain()).join('\n'), /-d 10\.2\.0\.0\/16/);
    holder.kill();
    await serving(agent);
    assert.equal(agent.log().match(/cannot listen/g)?.length, 1, 'one warning for all attempts');
    await agent.stop();
  });

  it('tell health, metrics, the config with its origins, and the status; --scrape-bind-address only metrics', async () => {
    await using node = await createNode();
    await node.box.run('ip', ['address', 'add', NODE_ADDRESS, 'dev', 'lo']);
    await node.volume({ 'ip-masq-a': CONFIG, 'ip-masq-<script>alert(1)': CONFIG });
    const agent = node.start(SERVED, `--scrape-bind-address=[${NODE_ADDRESS}]:9614`);
    await agent.logged(/"metrics on http:\/\/\[192\.0\.2\.1\]:9614: \/metrics"/);
    for (const [path, text] of [
      ['/healthz', /^200 ok\n/],
      ['/readyz?verbose', /^200 \[\+\] config: .*\n\[\+\] sync IPv4: last sync .*\n\[\+\] rules: .*\nok\n/],
      ['/metrics', /^ip_masq_agent_syncs_total\{family="IPv4",result="changed"\} 1$/m],
      ['/configz', /"nonMasqueradeCIDRs": \[[^\]]*"10\.1\.0\.0\/16"[^\]]*"line": 1,[\s\S]*"conflicts": \[/],
      ['/statusz', /^200 ip-masq-agent \S+: the rules are in sync\n/],
    ] as const) {
      assert.match(await node.fetch(path), text, path);
      assert.match(await node.fetch(path, NODE_ADDRESS), path === '/metrics' ? /^200 / : /^404 /, path);
    }
    await agent.stop();
  });
});
