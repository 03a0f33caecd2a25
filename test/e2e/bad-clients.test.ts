import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import type { Cling, Clung } from '../lab/clinger.ts';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { type Helper, startHelper } from '../lab/helper.ts';
import { BINARY, createNode, eventually, faultyNode, jsonLines, type NodeLab } from './support.ts';

const PORT = 9614;
const SERVED = `--metrics-bind-address=127.0.0.1:${PORT}`;
const INSIDE = (cidr: string) => ({ 'ip-masq-a': `nonMasqueradeCIDRs: [${cidr}]\n` });
const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

const ADDRESSES = Array.from({ length: 500 }, (_, number) => `10.9.${number >> 8}.${number & 255}/32`);

/** So many entries that the page of the status does not fit into the smallest buffers that Linux makes. */
const LONG = { 'ip-masq-b': `cidrLimit: 500\nnonMasqueradeCIDRs: [${ADDRESSES}]\n` };
const SMALL_BUFFERS = ['net.ipv4.tcp_wmem=4096 4096 4096', 'net.ipv4.tcp_rmem=4096 4096 4096'];

/** What the shipped readiness probe are given. */
const PROBE_MS = 5_000;

/** A connection that never sends all of its request. */
const HALF_SENT = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b';

/** What the manifest's memory limit leaves to an agent that has synced, less some room. 400 answers are far more. */
const MORE_KIB = 36 * 1024;

describe('SIGTERM ends the agent with code 0 although clients keep their connections open', () => {
  for (const [what, flags, stays] of [
    ['and the rules stay', [], true],
    ['and the rules go, with --cleanup-on-exit', ['--cleanup-on-exit'], false],
  ] as const) {
    it(what, async () => {
      await using node = await createNode();
      await node.volume({ ...INSIDE('10.1.0.0/16'), ...LONG });
      for (const setting of SMALL_BUFFERS)
        assert.equal((await node.box.run('sysctl', ['-w', setting])).code, 0);
      const agent = node.start(SERVED, ...flags);
      await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
      await using clinger = await startClinger(node);
      const texts = [HALF_SENT, '', request('/statusz')];
      await clinger.ask({ port: PORT, texts });
      await eventually(
        async () => (await queues(node)).filter((bytes) => bytes > 0).length === 1,
        () => 'the server to have sent all that the slow client can take',
      );
      assert.equal((await queues(node)).length, texts.length);
      agent.kill('SIGTERM');
      assert.deepEqual(await agent.ended, { code: 0, signal: null });
      assert.equal((await node.kernel()).includes('10.1.0.0/16'), stays);
    });
  }
});

describe('the rules are kept', () => {
  it('while more clients connect than there may be open files', async () => {
    await using node = await faultyNode('ulimit -n 100; exec $AGENT "$@"');
    const volume = await node.volume(INSIDE('10.1.0.0/16'));
    const agent = node.start(SERVED, '--resync-interval=100ms');
    await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
    await using clinger = await startClinger(node);
    await using fetcher = await startFetcher(node);
    await clinger.ask({ port: PORT, texts: Array.from({ length: 300 }, () => 'GET /') });
    await volume.swap(INSIDE('10.2.0.0/16'));
    await holds(node, '10.2.0.0/16');
    await clinger[Symbol.asyncDispose]();
    await answers(fetcher);
    agent.kill('SIGTERM');
    assert.equal((await agent.ended).code, 0, agent.log());
  });

  it('when the server fails, which is logged', async () => {
    await using node = await createNode();
    const volume = await node.volume(INSIDE('10.1.0.0/16'));
    const args = [`--config-dir=${node.configDir}`, `--termination-log=${node.dir}/none`, SERVED];
    const agent = node.box.spawn(BINARY, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(FAIL_ON_SIGUSR2)}` },
    });
    let log = '';
    agent.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      log += chunk;
    });
    const ended = once(agent, 'exit');
    const logged = (pattern: RegExp) =>
      eventually(
        () => pattern.test(log),
        () => `${pattern} in ${log}`,
      );
    await logged(/http:\/\/127\.0\.0\.1:9614/);
    agent.kill('SIGUSR2');
    await logged(
      /"level":"error".*accept EMFILE.*the metrics server has failed; the agent still keeps the rules/,
    );
    await volume.swap(INSIDE('10.2.0.0/16'));
    await holds(node, '10.2.0.0/16');
    await using fetcher = await startFetcher(node);
    await answers(fetcher);
    agent.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });
});

describe('100 of 100 probes are answered in time', () => {
  for (const [clients, texts] of [
    ['48 half-sent requests', times(48, HALF_SENT)],
    ['1,000 half-sent requests', times(1_000, HALF_SENT)],
    ['1,000 silent connections', times(1_000, '')],
  ] as const) {
    it(`while ${clients} come back whenever they are dropped`, async (t) => {
      await using node = await createNode();
      const agent = node.start(SERVED);
      await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
      await using clinger = await startClinger(node);
      await using fetcher = await startFetcher(node);
      await answers(fetcher);
      // By then it has loaded, beside the loop, all that it loads.
      await eventually(
        async () => {
          const { body } = await fetcher.ask({ url: `http://127.0.0.1:${PORT}/metrics` });
          return /^ip_masq_agent_masqueraded_pod_routes\{/m.test(body ?? '');
        },
        () => 'the first look at the node',
      );
      const pid = `${jsonLines(agent.log())[0]?.['pid']}`;
      const before = await kib(pid, 'VmRSS');
      void clinger.ask({ port: PORT, texts, again: true }).catch(() => {});
      await eventually(
        async () => (await queues(node)).length >= 30,
        () => 'the clients to be there',
      );
      const took: number[] = [];
      for (let probe = 0; probe < 100; probe += 1) {
        const start = performance.now();
        const { status } = await fetcher.ask({
          url: `http://127.0.0.1:${PORT}/healthz`,
          timeout: PROBE_MS,
        });
        if (status === 200) took.push(performance.now() - start);
      }
      const most = await kib(pid, 'VmHWM');
      t.diagnostic(`${before} KiB before, ${most} KiB at most`);
      t.diagnostic(`${took.length} answered, the slowest after ${Math.round(Math.max(...took))} ms`);
      assert.equal(took.length, 100);
      assert.ok(most - before < MORE_KIB, `${before} KiB before, ${most} KiB at most`);
    });
  }
});

/** As Node.js tells that a connection could not be accepted. Loaded into the agent before its own code. */
const FAIL_ON_SIGUSR2 = `
import { Server } from 'node:net';
const { listen } = Server.prototype;
Server.prototype.listen = function (...args) {
  const error = Object.assign(new Error('accept EMFILE'), { code: 'EMFILE', syscall: 'accept' });
  process.on('SIGUSR2', () => this.emit('error', error));
  return listen.apply(this, args);
};`;

function startClinger({ box }: NodeLab): Promise<Helper<Cling, Clung>> {
  return startHelper(box, new URL('../lab/clinger.ts', import.meta.url));
}

function startFetcher({ box }: NodeLab): Promise<Helper<Fetch, Fetched>> {
  return startHelper(box, new URL('../lab/fetcher.ts', import.meta.url));
}

function times(count: number, text: string): readonly string[] {
  return Array.from({ length: count }, () => text);
}

/** A line of /proc/PID/status. */
async function kib(pid: string, name: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${name}:\\s*(\\d+) kB$`, 'm').exec(status)?.[1]);
}

/** Bytes that wait in each connection of the server for its client. */
async function queues({ box }: NodeLab): Promise<readonly number[]> {
  const { stdout } = await box.run('ss', ['-Htn', 'state', 'established', 'sport', '=', `:${PORT}`]);
  return stdout.split('\n').flatMap((line) => {
    const [, sent] = line.trim().split(/\s+/);
    return sent === undefined ? [] : [Number(sent)];
  });
}

async function holds(node: NodeLab, cidr: string): Promise<void> {
  await eventually(
    async () => (await node.chain()).some((rule) => rule.startsWith(`-d ${cidr}`)),
    () => `a rule for ${cidr}`,
  );
}

/** Connections that are still being closed may be in its way at first. */
async function answers(fetcher: Helper<Fetch, Fetched>): Promise<void> {
  await eventually(
    async () => (await fetcher.ask({ url: `http://127.0.0.1:${PORT}/healthz` })).status === 200,
    () => 'the server to answer',
  );
}
