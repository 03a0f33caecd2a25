import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode, faultyNode, jsonLines, type NodeLab, SERVED } from './support.ts';

const KUBE_PROXY = 'add table ip kube-proxy; add table ip6 kube-proxy';

/** What iptables-nft-restore of 1.8.9 prints on a kernel without the modules of RHEL 10. */
const LACKING = [
  'Warning: Extension comment revision 0 not supported, missing kernel module?',
  'Warning: Extension MASQUERADE revision 0 not supported, missing kernel module?',
  'iptables-nft-restore v1.8.9 (nf_tables):',
  'line 3: RULE_APPEND failed (No such file or directory): rule in chain IP-MASQ-AGENT',
].join('\n');

/** What it prints without `nft_chain_nat`. */
const WITHOUT_NAT = 'line 7: CHAIN_ADD failed (No such file or directory): chain POSTROUTING';

describe('the agent with --backend=auto', () => {
  it('says what has chosen in metrics and on the status page, and to the commands beside it', async () => {
    await using node = await createNode();
    await node.nft(KUBE_PROXY);
    const agent = node.start(SERVED);
    await agent.logged(/http:/);
    assert.match(await node.metrics(), /build_info\{.*dataplane="nftables",chosen_by="kube-proxy"\} 1/);
    assert.match(await node.fetch('/statusz'), /nftables \(kube-proxy uses nftables\)/);
    assert.match((await node.agent('doctor')).stdout, /read: .*; nftables: kube-proxy uses nftables;/);
    // The rules of the agent decide for a command too; without them, the running agent does.
    await node.nft('flush ruleset');
    const { stdout } = await node.agent('diff');
    assert.match(stdout, /^IPv4, nftables: /m);
    await agent.stop();
  });

  it('takes nftables if the kernel lacks what iptables needs, after one attempt', async () => {
    await using node = await lackingNode();
    const { code, stderr } = await node.agent('--once');
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stderr, /trying again/);
    assert.match(
      stderr,
      /using nftables: iptables does not work here: .*lacks some of nft_compat, xt_comment, xt_MASQUERADE"/,
    );
    assert.match(await node.nft('list table ip ip-masq-agent'), /masquerade/);
    assert.equal((await node.agent('diff')).code, 0);
  });

  it('takes nftables if another program has made nat useless, and ends with a message if that happens later', async () => {
    await using node = await createNode();
    const agent = node.start(SERVED);
    await agent.logged(/using iptables/);
    await agent.logged(/http:/);
    await node.nft('add table ip nat { flags dormant; }');
    await agent.logged(/"fatal",.*the table ip nat is dormant: .*wake the table up/);
    const { code, stderr } = await node.agent('--once');
    assert.equal(code, 0, stderr);
    assert.match(stderr, /using nftables: iptables does not work here: the table ip nat is dormant/);
    assert.match(stderr, /"warn",.*the table ip nat is dormant.*; find out which program/);
    const { code: found, stdout } = await node.agent('doctor');
    assert.equal(found, 4);
    assert.match(stdout, /nat-unusable \(IPv4\): the table ip nat is dormant/);
    assert.match(await node.nft('list table ip ip-masq-agent'), /masquerade/);
    assert.doesNotMatch(await node.nft('list table ip nat'), /IP-MASQ-AGENT/);
  });

  it('warns if a flag asks for iptables on such a node', async () => {
    await using node = await lackingNode();
    const { code, stderr } = await node.agent('--once', '--iptables-mode=nft');
    assert.equal(code, 0, stderr);
    assert.match(stderr, /"warn",.*--iptables-mode=nft has no effect; remove it: /);
  });

  it('ends with all reasons if nothing works', async () => {
    await using node = await lackingNode();
    await node.nft('add table ip ip-masq-agent; add chain ip ip-masq-agent foreign');
    const { code, stderr } = await node.agent('--once', '--masq-chain=OTHER');
    assert.equal(code, 1);
    const { msg } = jsonLines(stderr).at(-1) ?? {};
    assert.match(
      `${msg}`,
      /no dataplane works on this node: .*xt_MASQUERADE; .*ip-masq-agent.*; load .*; or /,
    );
  });

  it('takes legacy mode if there is no NAT in nf_tables, unless a flag says otherwise, and tells the commands beside it', async () => {
    await using node = await lackingNode(WITHOUT_NAT);
    // What kubelet keeps says nft mode, and so would a command by itself.
    await node.run('iptables-nft', '-t', 'mangle', '-N', 'KUBE-KUBELET-CANARY');
    const other = await node.agent('--once', '--backend=iptables', '--iptables-mode=nft');
    assert.equal(other.code, 1);
    assert.match(other.stderr, /"fatal",.*lacks some of nft_chain_nat; .*use --iptables-mode=legacy"/);
    const agent = node.start('--backend=iptables');
    await agent.logged(
      /using iptables .* \(legacy\): nft mode does not work here: .*lacks some of nft_chain_nat/,
    );
    await agent.logged(/rules added/);
    assert.match(await node.run('iptables-legacy', '-t', 'nat', '-S', 'POSTROUTING'), /IP-MASQ-AGENT/);
    const { code, stdout, stderr } = await node.agent('diff');
    assert.equal(code, 0, stdout);
    assert.match(stderr, /flags of the running agent, .*--iptables-mode=legacy/);
    await agent.stop();
  });

  it('does not take nftables if --backend names iptables, and names the other flag', async () => {
    await using node = await lackingNode();
    const { code, stderr } = await node.agent('--once', '--backend=iptables');
    assert.equal(code, 1);
    assert.match(stderr, /"fatal",.*lacks some of nft_compat, .*; load them .*or use --backend=nftables"/);
    assert.equal(await node.run('nft', 'list', 'tables'), '');
  });
});

/** A node without the modules that iptables-nft needs, of which it says so. */
async function lackingNode(said = LACKING): Promise<NodeLab> {
  const tool = `cat >/dev/null\ncat >&2 <<'END'\n${said}\nEND\nexit 4`;
  return await faultyNode('exec $AGENT "$@"', { 'iptables-nft-restore': tool });
}
