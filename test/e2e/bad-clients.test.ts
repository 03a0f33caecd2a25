import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { it } from 'node:test';
import type { Cling } from '../lab/clinger.ts';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { type Helper, startHelper } from '../lab/helper.ts';
import { startFetcher } from '../lab/helpers.ts';
import { createNode, eventually, jsonLines, type NodeLab, SERVED } from './support.ts';

const PORT = 9614;
const CLINGER = new URL('../lab/clinger.ts', import.meta.url);

/** What the shipped readiness probe are given. */
const PROBE_MS = 5_000;

/** A connection that never sends all of its request. */
const HALF_SENT = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b';

/** What the manifest's memory limit leaves to an agent that has synced, less some room. 400 answers are far more. */
const MORE_KIB = 36 * 1024;

it('100 of 100 probes are answered in time while 1,000 half-sent requests come back whenever they are dropped', async (t) => {
  await using node = await createNode();
  const agent = node.start(SERVED);
  await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
  await using clinger = await startHelper<Cling, true>(node.box, CLINGER);
  await using fetcher = await startFetcher(node.box);
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
  await clinger.ask({ port: PORT, connections: 1_000, text: HALF_SENT });
  await eventually(
    async () => (await connections(node)) >= 30,
    () => 'the clients to be there',
  );
  const took: number[] = [];
  for (let probe = 0; probe < 100; probe += 1) {
    const start = performance.now();
    const { status } = await fetcher.ask({ url: `http://127.0.0.1:${PORT}/healthz`, timeout: PROBE_MS });
    if (status === 200) took.push(performance.now() - start);
  }
  const most = await kib(pid, 'VmHWM');
  t.diagnostic(`${before} KiB before, ${most} KiB at most`);
  t.diagnostic(`${took.length} answered, the slowest after ${Math.round(Math.max(...took))} ms`);
  assert.equal(took.length, 100);
  assert.ok(most - before < MORE_KIB, `${before} KiB before, ${most} KiB at most`);
  await agent.stop();
});

/** A line of /proc/PID/status. */
async function kib(pid: string, name: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${name}:\\s*(\\d+) kB$`, 'm').exec(status)?.[1]);
}

/** How many connections the server has. */
async function connections({ box }: NodeLab): Promise<number> {
  const { stdout } = await box.run('ss', ['-Htn', 'state', 'established', 'sport', '=', `:${PORT}`]);
  return stdout.split('\n').filter((line) => line !== '').length;
}

/** Connections that are still being closed may be in its way at first. */
async function answers(fetcher: Helper<Fetch, Fetched>): Promise<void> {
  await eventually(
    async () => (await fetcher.ask({ url: `http://127.0.0.1:${PORT}/healthz` })).status === 200,
    () => 'the server to answer',
  );
}
