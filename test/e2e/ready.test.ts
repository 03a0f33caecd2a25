import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Fetch, Fetched } from '../lab/fetcher.ts';
import { startHelper } from '../lab/helper.ts';
import { createNode, eventually, SERVED } from './support.ts';
import { holdLock } from './xtables-lock.ts';

const FETCHER = new URL('../lab/fetcher.ts', import.meta.url);

describe('readiness', () => {
  it('ends with a reason while no sync succeeds, and comes back with the first that does', async () => {
    await using node = await createNode();
    await using fetcher = await startHelper<Fetch, Fetched>(node.box, FETCHER);
    const ask = (path: string) => fetcher.ask({ url: `http://127.0.0.1:9614${path}` });
    const answers = async (path: string, status: number, body: RegExp) => {
      let last: Fetched | undefined;
      await eventually(
        async () => {
          last = await ask(path);
          return last.status === status && body.test(last.body);
        },
        () => `${path} to answer ${status} and ${body}; it answers ${JSON.stringify(last)}`,
      );
    };
    const flags = [
      '--iptables-mode=legacy',
      '--enable-ipv6',
      '--resync-interval=500ms',
      '--sync-timeout=10m',
    ];
    const agent = node.start(SERVED, ...flags);
    await agent.logged(/http:\/\/127\.0\.0\.1:9614/);
    await answers('/readyz', 200, /^ok\n$/);

    const lock = await holdLock(node);
    // After five seconds without a reading the rules are contested too.
    const late = /^(\[-\] sync IPv[46]: .* 1\.5 s.*\n){2}(\[-\] rules: .*\n)?not ok\n$/;
    await answers('/readyz', 503, late);
    await answers(
      '/readyz?verbose',
      503,
      /^\[\+\] config: .*\n(\[-\] sync IPv[46]: .*\n){2}\[[-+]\] rules: .*\nnot ok\n$/,
    );
    await answers('/statusz', 200, /: not ready, sync IPv4: /);
    assert.deepEqual(await ask('/healthz'), { status: 200, body: 'ok\n' });
    const told = await node.agent('status', '-o', 'json');
    const { inSync, reasons } = JSON.parse(told.stdout);
    assert.deepEqual([told.code, inSync], [4, false]);
    assert.match(reasons.join(), /^sync IPv4: /);
    await answers('/readyz', 503, /\n\[-\] rules: .*cannot read.*xtables lock.*\nnot ok\n$/);

    lock.kill();
    await answers('/readyz', 200, /^ok\n$/);
    const good = /^\[\+\] config: .*\n(\[\+\] sync IPv[46]: .* 1\.5 s.*\n){2}\[\+\] rules: .*\nok\n$/;
    await answers('/readyz?verbose', 200, good);
    await answers('/statusz', 200, /: ready</);
    await agent.stop();
  });
});
