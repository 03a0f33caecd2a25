import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { startHelper } from '../lab/helper.ts';
import { createNode, eventually, type NodeLab, SERVED } from './support.ts';

interface Fetch {
  readonly url: string;
}

interface Fetched {
  readonly status: number;
  readonly body: string;
}

const FETCHER = new URL('../lab/fetcher.ts', import.meta.url);
const INSIDE = (...cidrs: string[]) => ({ 'ip-masq-a': `nonMasqueradeCIDRs: [${cidrs.join(', ')}]\n` });
const LISTING = ['-s', 'list', 'table', 'ip', 'ip-masq-agent'];

async function run(node: NodeLab, file: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await node.box.run(file, args);
  assert.equal(code, 0, `${file} ${args.join(' ')}: ${stderr}`);
  return stdout;
}

/** A program of this name that runs instead of the real one; the agent must get the returned PATH. */
async function wrapper(node: NodeLab, name: string, script: string): Promise<string> {
  const path = join(node.dir, name);
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
  return `${node.dir}:${process.env['PATH']}`;
}

describe('rules that do not stay', () => {
  it('are written anew, whole, after a listing that was saved earlier is loaded again', async () => {
    await using node = await createNode();
    const volume = await node.volume(INSIDE('128.0.0.0/1'));
    const agent = node.start('--backend=nftables', '--resync-interval=1h', '--sync-timeout=4s', SERVED);
    await agent.logged(/metrics, probes and status on/);
    const saved = await run(node, 'nft', ...LISTING);
    await volume.swap(INSIDE('224.0.0.0/4'));
    await agent.logged(/- element 128\.0\.0\.0/);
    const wanted = await run(node, 'nft', ...LISTING);
    await writeFile(join(node.dir, 'saved'), saved);
    await run(node, 'nft', '-f', join(node.dir, 'saved'));
    await eventually(
      async () => (await run(node, 'nft', ...LISTING)) === wanted,
      () => `the table as it was; the log is ${agent.log()}`,
    );
    agent.kill('SIGTERM');
    assert.equal((await agent.ended).code, 0);
  });

  for (const [flag, tool] of [
    ['--backend=nftables', 'nft'],
    ['--iptables-mode=nft', 'iptables-nft-restore'],
  ] as const) {
    for (const netlink of ['auto', 'off']) {
      it(`are an error with the name of the tool if ${tool} writes nothing, --netlink=${netlink}`, async () => {
        await using node = await createNode();
        await node.volume(INSIDE('10.0.0.0/8'));
        const real = (await run(node, 'sh', '-c', `command -v ${tool}`)).trim();
        const path = await wrapper(
          node,
          tool,
          `case "$*" in *--version*|*list*) exec ${real} "$@";; esac; cat >/dev/null`,
        );
        const args = [
          flag,
          `--netlink=${netlink}`,
          `--config-dir=${node.configDir}`,
          '--metrics-bind-address=',
        ];
        for (const once of [['--once'], []]) {
          const { code, stderr } = await node.box.run('env', [
            `PATH=${path}`,
            join(import.meta.dirname, '../../bin/ip-masq-agent'),
            'run',
            ...args,
            ...once,
          ]);
          assert.equal(code, 1, stderr);
          assert.match(
            stderr,
            new RegExp(`"fatal",.*"msg":"${tool} .* the kernel holds none of the IPv4 rules`),
          );
        }
      });
    }
  }

  for (const flags of [['--netlink=auto'], ['--netlink=off'], ['--iptables-mode=legacy']]) {
    it(`are told with the foreign rule that keeps a chain, ${flags}`, async () => {
      await using node = await createNode();
      const from = 'masqueradeFromCIDRs: [10.244.0.0/16]\n';
      const volume = await node.volume({ 'ip-masq-a': `${INSIDE('10.0.0.0/8')['ip-masq-a']}${from}` });
      const once = () => node.agent('--once', ...flags);
      assert.equal((await once()).code, 0);
      const tool = flags[0] === '--iptables-mode=legacy' ? 'iptables-legacy' : 'iptables-nft';
      await run(node, tool, '-t', 'nat', '-A', 'POSTROUTING', '-p', 'udp', '-j', 'IP-MASQ-AGENT-FROM');
      await volume.swap(INSIDE('10.0.0.0/8'));
      for (const sync of ['the change', 'a new process']) {
        const { code, stderr } = await once();
        assert.equal(code, 0, stderr);
        const warning =
          /"warn".*IP-MASQ-AGENT-FROM stays, empty, .*: -A POSTROUTING -p udp -j IP-MASQ-AGENT-FROM;/;
        assert.match(stderr, warning, sync);
        const listing = await run(node, tool, '-t', 'nat', '-S', 'IP-MASQ-AGENT-FROM');
        assert.equal(listing, '-N IP-MASQ-AGENT-FROM\n', sync);
      }
    });
  }

  it('make the agent not ready, with the name of the program, until they stay', async () => {
    await using node = await createNode();
    await node.volume(INSIDE('10.0.0.0/8'));
    await using fetcher = await startHelper<Fetch, Fetched>(node.box, FETCHER);
    const ask = (path: string) => fetcher.ask({ url: `http://127.0.0.1:9614${path}` });
    const answers = async (status: number, body: RegExp) => {
      let last: Fetched | undefined;
      await eventually(
        async () => {
          last = await ask('/readyz');
          return last.status === status && body.test(last.body);
        },
        () => `${status} and ${body}; it is ${JSON.stringify(last)}`,
      );
    };
    const agent = node.start('--backend=nftables', '--resync-interval=1h', SERVED);
    await agent.logged(/metrics, probes and status on/);
    await answers(200, /^ok\n$/);
    const contested = async () =>
      /^ip_masq_agent_rules_contested (\d)$/m.exec((await ask('/metrics')).body)?.[1];
    assert.equal(await contested(), '0');

    const other = node.box.spawn('sh', [
      '-c',
      'while true; do nft flush chain ip ip-masq-agent postrouting 2>/dev/null; sleep 0.01; done',
    ]);
    await answers(503, /^\[-\] rules: nft changes the agent's rules again and again.*\nnot ok\n$/);
    assert.equal(await contested(), '1');
    await agent.logged(/changes the agent's rules again and again; repairs now come up to 2s later/);
    other.kill('SIGKILL');
    await answers(200, /^ok\n$/);
    await eventually(
      async () => (await contested()) === '0',
      () => 'the gauge to be 0',
    );
    assert.match(await run(node, 'nft', ...LISTING), /masquerade/);
    agent.kill('SIGTERM');
    assert.equal((await agent.ended).code, 0);
  });
});
