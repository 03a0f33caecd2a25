import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createNode, eventually, type NodeLab, type RunningAgent, SERVED } from './support.ts';

const NODE_ADDRESS = '192.0.2.1';
const CONFIG = 'nonMasqueradeCIDRs: [10.1.0.0/16]\n';

/** Takes the port. */
const HOLD = `require('node:net').createServer().listen(9614, '127.0.0.1', () => console.log('held'))`;

/** Asks the agent from within its node: a program there, as the port is the node's own. */
const FETCH = `const [url, accept] = process.argv.slice(1);
const response = await fetch(url, { headers: { accept } });
console.log(JSON.stringify({ status: response.status, type: response.headers.get('content-type'), body: await response.text() }));`;

async function ask(node: NodeLab, path: string, accept = '*/*', host = '127.0.0.1') {
  const args = ['--input-type=module', '-e', FETCH, `http://${host}:9614${path}`, accept];
  const { stdout, stderr } = await node.box.run(process.execPath, args);
  assert.ok(stdout, stderr);
  return JSON.parse(stdout) as { status: number; type: string; body: string };
}

async function serving(agent: RunningAgent): Promise<void> {
  await agent.logged(/metrics, probes and status on/);
}

describe('the endpoints of the agent', () => {
  it('tell health, metrics in both formats, the config with its origins, and the status', async () => {
    await using node = await createNode();
    await node.volume({ 'ip-masq-a': CONFIG, 'ip-masq-<script>alert(1)': CONFIG });
    const agent = node.start(SERVED);
    await serving(agent);
    assert.equal((await ask(node, '/healthz')).body, 'ok\n');
    assert.match(
      (await ask(node, '/readyz?verbose')).body,
      /^\[\+\] config: .*\n\[\+\] sync IPv4: last sync .*\n\[\+\] rules: .*\nok\n$/,
    );
    const prometheus = await ask(node, '/metrics');
    assert.match(prometheus.type, /^text\/plain; version=0\.0\.4/);
    assert.match(prometheus.body, /^ip_masq_agent_syncs_total\{family="IPv4",result="changed"\} 1$/m);
    const configz = JSON.parse((await ask(node, '/configz')).body);
    assert.match(JSON.stringify(configz.merged.nonMasqueradeCIDRs), /10\.1\.0\.0\/16.*"line":1/);
    assert.ok(Array.isArray(configz.conflicts));
    const { body } = await ask(node, '/statusz');
    assert.match(body, /10\.1\.0\.0\/16/);
    assert.doesNotMatch(body, /<script/);
    // What OpenMetrics is asked for gets this format too, which Prometheus takes as well.
    const open = await ask(node, '/metrics', 'application/openmetrics-text; version=1.0.0');
    assert.equal(open.type, prometheus.type);
    await agent.stop();
  });

  it('never end the agent if another program has the port: it keeps the rules, and listens once the port is free', async () => {
    await using node = await createNode();
    const volume = await node.volume({ 'ip-masq-a': CONFIG });
    const holder = node.box.spawn(process.execPath, ['-e', HOLD], { stdio: ['ignore', 'pipe', 'ignore'] });
    await once(holder.stdout ?? assert.fail(), 'data');
    const message = join(node.dir, 'termination-log');
    await writeFile(message, '');
    const agent = node.start(SERVED, `--termination-log=${message}`);
    await agent.logged(/\(another program listens there.*tries again to listen/);
    await eventually(
      async () => /another program/.test(await readFile(message, 'utf8')),
      () => 'no message',
    );
    await volume.swap({ 'ip-masq-a': CONFIG.replace('10.1', '10.2') });
    await agent.logged(/"reason":"change"/);
    assert.match((await node.chain()).join('\n'), /-d 10\.2\.0\.0\/16/);
    holder.kill();
    await serving(agent);
    const { body } = await ask(node, '/metrics');
    assert.match(body, /^ip_masq_agent_listen_failures_total\{listener="metrics"\} [1-9]/m);
    assert.equal(agent.log().match(/cannot listen/g)?.length, 1, 'one warning for all attempts');
    await eventually(
      async () => (await readFile(message, 'utf8')) === '',
      () => 'the message stays',
    );
    await agent.stop();
  });

  it('are only /metrics on --scrape-bind-address, whatever is asked for', async () => {
    await using node = await createNode();
    await node.box.run('ip', ['address', 'add', NODE_ADDRESS, 'dev', 'lo']);
    const agent = node.start(SERVED, `--scrape-bind-address=[${NODE_ADDRESS}]:9614`);
    await agent.logged(/"metrics on http:\/\/\[192\.0\.2\.1\]:9614: \/metrics"/);
    const statuses = async (host: string) =>
      Promise.all(
        ['/metrics', '/healthz', '/readyz', '/configz', '/statusz'].map(
          async (path) => (await ask(node, path, '*/*', host)).status,
        ),
      );
    assert.deepEqual(await statuses(NODE_ADDRESS), [200, 404, 404, 404, 404]);
    assert.deepEqual(await statuses('127.0.0.1'), [200, 200, 200, 200, 200]);
    await agent.stop();
  });

  it('are none where the address is empty', async () => {
    await using node = await createNode();
    const agent = node.start('--metrics-bind-address=', '--resync-interval=100ms', '--v=3');
    await agent.logged(/"reason":"resync"/);
    assert.doesNotMatch(agent.log(), /http:/);
    await agent.stop();
  });
});
