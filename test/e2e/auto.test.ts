import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import {
  answers,
  createNode,
  eventually,
  faultyNode,
  inside,
  jsonLines,
  type NodeLab,
  REFUSE,
  type RunningAgent,
  SERVED,
} from './support.ts';

const [NETFILTER, EPERM] = [12, 1];

const KUBE_PROXY = 'add table ip kube-proxy; add table ip6 kube-proxy';

/** What iptables-nft -C of 1.8.9 prints on a kernel without the modules of RHEL 10. */
const LACKING = [
  'Warning: Extension comment revision 0 not supported, missing kernel module?',
  'Warning: Extension MASQUERADE revision 0 not supported, missing kernel module?',
  'iptables: Bad rule (does a matching rule exist in that chain?).',
].join('\n');

describe('the agent with --backend=auto', () => {
  it('follows kube-proxy at once, and removes its rules from the other dataplane after that', async () => {
    await using node = await createNode();
    const agent = node.start('--resync-interval=1h', SERVED);
    await agent.logged(/using iptables .*: kube-proxy does not use nftables/);
    await agent.logged(/http:/);
    const inIptables = () => node.run('iptables-nft', '-t', 'nat', '-S');
    const inNftables = () => node.nft('list tables');
    const [chain, none] = [await inIptables(), await inNftables()];
    for (const round of [1, 2]) {
      await node.nft(KUBE_PROXY);
      await logs(agent, /using nftables: kube-proxy uses nftables/g, round);
      await logs(agent, /no longer in use: IPv4, iptables .*: removed 7 rules/g, round);
      assert.doesNotMatch(await inIptables(), /IP-MASQ/);
      await node.nft('delete table ip kube-proxy; delete table ip6 kube-proxy');
      await logs(agent, /using iptables .*: kube-proxy does not use nftables/g, round + 1);
      await logs(agent, /no longer in use: IPv4, nftables: removed /g, round);
      assert.deepEqual([await inIptables(), await inNftables()], [chain, none], agent.log());
    }
    // What a change of the dataplane alone does is told as that.
    assert.doesNotMatch(agent.log(), /repaired|are back|had no rules before.*had no rules before/s);
    assert.match(await node.metrics(), /build_info\{.*dataplane="iptables [^"]*"\} 1/);
    await agent.stop();
  });

  it('comes back to nftables as soon as kube-proxy has its table again after a flush, and accuses nobody', async () => {
    await using node = await createNode();
    await node.nft(KUBE_PROXY);
    const agent = node.start('--resync-interval=1h', SERVED);
    await agent.logged(/http:/);
    await node.nft('flush ruleset');
    await logs(agent, /using iptables .*: kube-proxy does not use nftables/g, 1);
    await node.nft(KUBE_PROXY);
    await logs(agent, /using nftables: kube-proxy uses nftables/g, 2);
    await logs(agent, /no longer in use: IPv4, iptables .*: removed 7 rules/g, 1);
    assert.doesNotMatch(agent.log(), /has changed the agent's rules/);
    assert.doesNotMatch(await node.metrics(), /drift_repairs_total\{.*\} [1-9]/);
    await agent.stop();
  });

  it('takes nftables if the kernel lacks what iptables needs, and writes nothing before', async () => {
    await using node = await lackingNode();
    const { code, stderr } = await node.agent('--once');
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stderr, /trying again/);
    assert.match(
      stderr,
      /using nftables: iptables does not work here: .*lacks some of nft_compat, xt_comment, xt_MASQUERADE"/,
    );
    assert.match(await node.nft('list table ip ip-masq-agent'), /masquerade/);
    assert.doesNotMatch(await node.nft('list tables'), /nat/);
    assert.equal((await node.agent('diff')).code, 0);
  });

  it('writes nothing and is not ready while another program has made nat useless, and does not take nftables for it', async () => {
    await using node = await createNode();
    const agent = node.start(SERVED);
    await agent.logged(/using iptables/);
    await agent.logged(/http:/);
    await node.nft('add table ip nat { flags dormant; }');
    await agent.logged(
      /"error",.*the table ip nat is dormant: .*the rules stay as they are; .*wake the table up/,
    );
    await answers(node, '/readyz', /^503 .*dormant/);
    assert.match((await node.agent('doctor')).stdout, /kernel-refused \(IPv4\): the table ip nat is dormant/);
    await node.nft('add table ip nat');
    await answers(node, '/readyz', /^200 /);
    assert.doesNotMatch(await node.nft('list tables'), /ip-masq-agent/);
    await agent.stop();
  });

  it('ends with all reasons if nothing works', async () => {
    await using node = await faultyNode(
      `exec perl ${REFUSE} ${NETFILTER} ${EPERM} env PATH=/nowhere $AGENT "$@"`,
    );
    const { code, stderr } = await node.agent('--once');
    assert.equal(code, 1);
    const { msg } = jsonLines(stderr).at(-1) ?? {};
    assert.match(
      `${msg}`,
      /no dataplane works on this node: no iptables .* is installed; nftables needs netlink.*; install .*; or /,
    );
  });
});

it('the agent with --backend=nftables starts no program, whatever changes', async () => {
  const TOOLS = ['nft', ...['iptables', 'ip6tables'].flatMap((tool) => [`${tool}-nft`, `${tool}-legacy`])];
  const started = 'echo "$0 $*" >> $DIR/started; exit 1';
  const names = TOOLS.flatMap((tool) => [tool, `${tool}-save`, `${tool}-restore`]);
  await using node = await faultyNode(
    'exec $AGENT "$@"',
    Object.fromEntries(names.map((name) => [name, started])),
  );
  const volume = await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
  const agent = node.start('--backend=nftables', '--enable-ipv6', '--resync-interval=1h', SERVED);
  await agent.logged(/http:/);
  await node.nft('flush chain ip ip-masq-agent postrouting; delete table ip6 ip-masq-agent');
  await agent.logged(/repaired.*repaired/s);
  await volume.swap({ 'ip-masq-a': inside('10.0.0.0/9') });
  await agent.logged(/"reason":"change"/);
  agent.kill('SIGHUP');
  await answers(node, '/metrics', /flows_against_policy/);
  await agent.stop();
  assert.equal(await readFile(join(node.scratch, 'started'), 'utf8').catch(() => ''), '', 'what has started');
});

/** Waits until the log matches so many times. */
async function logs(agent: RunningAgent, pattern: RegExp, times: number): Promise<void> {
  await eventually(
    () => (agent.log().match(pattern)?.length ?? 0) >= times,
    () => `${pattern} ${times} times; the log is ${agent.log()}`,
  );
}

/** A node without the modules that iptables-nft needs, of which it says so. */
async function lackingNode(): Promise<NodeLab> {
  const says = `case "$*" in *-C*) cat >&2 <<'END'\n${LACKING}\nEND\nexit 1;; esac`;
  return await faultyNode('exec $AGENT "$@"', {
    'iptables-nft': `${says}\nPATH=\${PATH#"$DIR":} exec iptables-nft "$@"`,
  });
}
