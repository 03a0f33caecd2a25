import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { memoryCgroup, whyNoMemoryCgroup } from '../lab/cgroups.ts';
import { setInUse, unnumbered } from '../lab/own-sets.ts';
import { answers, createNode, eventually, faultyNode, inside, REFUSE, SERVED } from './support.ts';

/** Protocols of netlink. */
const [ROUTE, NETFILTER] = [0, 12];
const ERRNO = { EPERM: 1, EACCES: 13, ENOSYS: 38, EAFNOSUPPORT: 97 } as const;

const WHY_NO_CGROUP = await whyNoMemoryCgroup();

const NFT = ['--iptables-mode=nft', '--backend=iptables'];
const ADDRESS = 'masqueradeAddresses: [{destination: 8.0.0.0/8, address: 192.0.2.0/24}]\n';

/** Starts the real program, but fails in one way as long as `$DIR/fault` exists. */
const unless = (fault: string, program: string) =>
  `if [ -e $DIR/fault ]; then ${fault}; fi\nPATH=$(echo "$PATH" | sed "s,$DIR:,,") exec ${program} "$@"`;

const RUN = 'exec $AGENT "$@"';

describe('a fault of the node', () => {
  for (const [what, fault] of [
    ['hangs', 'exec sleep 100'],
    ['finds the kernel busy', 'echo "iptables-restore: Resource temporarily unavailable." >&2; exit 4'],
  ] as const)
    it(`that a repair ${what} ends readiness within seconds, and a gauge says so`, async () => {
      const tool = 'iptables-nft-restore';
      await using node = await faultyNode(RUN, { [tool]: unless(fault, tool) });
      await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
      const agent = node.start('--sync-timeout=60s', SERVED, ...NFT);
      await agent.logged(/metrics, probes and status on/);
      await writeFile(join(node.scratch, 'fault'), '');
      await node.iptables('-F', 'POSTROUTING');
      const since = performance.now();
      await answers(node, '/readyz', /^503 \[-\] rules: the (?:kernel does not hold|agent cannot)/);
      assert.ok(performance.now() - since < 20_000);
      await answers(node, '/metrics', /^ip_masq_agent_rules_out_of_sync 1$/m);
      agent.kill('SIGKILL');
    });

  for (const [what, fault] of [
    ['is killed', 'rm $DIR/fault; kill -9 $$'],
    ['gets no memory', 'rm $DIR/fault; echo "iptables: Cannot allocate memory" >&2; exit 1'],
  ] as const)
    it(`that a tool which lists ${what} once is outlived`, async () => {
      const tool = 'iptables-nft';
      await using node = await faultyNode(RUN, {
        [tool]: unless(`case "$*" in *-S*) ${fault};; esac`, tool),
      });
      await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
      await writeFile(join(node.scratch, 'fault'), '');
      const { code, stderr } = await node.agent('--once', ...NFT);
      assert.equal(code, 0, stderr);
      assert.match(await node.iptables('-S', 'POSTROUTING'), /IP-MASQ-AGENT/);
    });

  it('that there is no free file for a while is outlived', async () => {
    await using node = await faultyNode(RUN);
    await node.volume({ 'ip-masq-a': `${inside('10.0.0.0/8')}${ADDRESS}` });
    const agent = node.start(...NFT);
    await agent.logged(/rules added/);
    const [, pid = ''] = await agent.logged(/"pid":(\d+)/);
    await node.run('prlimit', '--pid', pid, '--nofile=3:4096');
    await node.iptables('-F', 'POSTROUTING');
    agent.kill('SIGHUP');
    await agent.logged(/trying again/);
    await node.run('prlimit', '--pid', pid, '--nofile=4096:4096');
    await eventually(
      async () => (await node.iptables('-S', 'POSTROUTING')).includes('IP-MASQ-AGENT'),
      () => `the jump; the log is ${agent.log()}`,
    );
    await agent.stop();
  });

  it('that sockets for routes are refused costs only the addresses of the node', async () => {
    await using node = await faultyNode(`exec perl ${REFUSE} ${ROUTE} ${ERRNO.EPERM} $AGENT "$@"`);
    await node.volume({ 'ip-masq-a': `${inside('10.0.0.0/8')}${ADDRESS}` });
    const agent = node.start(...NFT);
    await agent.logged(/"warn".*cannot read the node's addresses: .*seccomp/);
    await agent.logged(/rules added/);
    await agent.stop();
  });

  for (const [name, errno] of Object.entries(ERRNO))
    it(`that netlink sockets are refused with ${name} is told as that`, async () => {
      await using node = await faultyNode(`exec perl ${REFUSE} ${NETFILTER} ${errno} $AGENT "$@"`);
      await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
      const { code, stderr } = await node.agent('--once', '--backend=nftables');
      assert.equal(code, 1);
      assert.match(stderr, new RegExp(`"fatal".*netlink socket.*seccomp.*SELinux.*${name}`));
      assert.doesNotMatch(stderr, /has no nf_tables/);
    });

  // Over the native module tools are started without /dev/null.
  for (const [what, how, message] of [
    ['/proc', 'umount -l /proc', /cannot read .*\/proc/],
    ['/dev/null', 'mount -t tmpfs none /dev', /"fatal".*cannot be run.*\/dev\/null/],
  ] as const)
    it(`that there is no ${what} is told as that`, async () => {
      await using node = await faultyNode(`exec unshare --mount sh -c '${how}; exec "$@"' sh $AGENT "$@"`);
      await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
      const { code, stderr } = await node.agent('--once', '--iptables-mode=nft', '--log-format=json');
      assert.notEqual(code, 0);
      assert.match(stderr, message);
    });

  it('that the reader of standard error is gone leaves the termination message', async () => {
    await using node = await faultyNode(RUN);
    await node.volume({ 'ip-masq-a': 'nonMasqueradeCIDRs: [no]\n' });
    const termination = join(node.dir, 'termination');
    await writeFile(termination, '');
    const path = join(node.dir, 'socket');
    const server = createServer().listen(path);
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    const socket = connect({ path, allowHalfOpen: true });
    const [reader] = await accepted;
    reader.destroy();
    await once(reader, 'close');
    const args = [
      `--config-dir=${node.configDir}`,
      `--termination-log=${termination}`,
      '--metrics-bind-address=',
    ];
    const child = node.box.spawn(join(node.scratch, 'agent'), args, { stdio: ['ignore', 'ignore', socket] });
    const [code] = await once(child, 'close');
    server.close();
    socket.destroy();
    assert.equal(code, 3);
    assert.match((await node.run('cat', termination)).slice(0, 300), /1 error in the config/);
  });
});

describe('more than the agent writes', () => {
  const NFTABLES = '--backend=nftables';
  const MANY = Array.from({ length: 30_000 }, (_, index) => `1.0.${index >> 7}.${(index & 127) * 2}`);
  const comment = 'x'.repeat(100);

  for (const [what, script] of [
    ['elements', (set: string) => `add element ip ip-masq-agent ${set} { ${MANY.join(', ')} }`],
    [
      'rules',
      () =>
        MANY.slice(0, 6_000)
          .map((to) => `add rule ip ip-masq-agent postrouting ip daddr ${to} return comment "${comment}"`)
          .join('\n'),
    ],
  ] as const)
    it(`in its table is replaced without being read: ${what}`, async () => {
      await using node = await createNode();
      await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
      const once = () => node.agent('--once', NFTABLES, '--cidr-limit-max=1', '--cidr-limit=1');
      assert.equal((await once()).code, 0);
      const listing = async () =>
        unnumbered(await node.run('nft', '-s', 'list', 'table', 'ip', 'ip-masq-agent'));
      const addMany = async () =>
        node.nft(script((await node.run('sh', '-ec', `echo ${setInUse('IPv4')}`)).trim()));
      const before = await listing();
      await addMany();
      assert.match((await once()).stderr, /rules added \d+, removed \d\d?,/);
      assert.equal(await listing(), before);
      assert.doesNotMatch((await once()).stderr, /rules added/);
      await addMany();
      assert.equal(
        (await node.agent('--once', '--backend=iptables', '--cidr-limit-max=1', '--cidr-limit=1')).code,
        0,
      );
      assert.doesNotMatch(await node.run('nft', 'list', 'tables'), /ip ip-masq-agent/);
    });

  for (const [what, mode, count] of [
    ['of another program', 'nft', 65_535],
    ['of the agent', 'legacy', 30_000],
  ] as const)
    it(`in a chain is replaced and removed within 64 MiB: ${count} rules ${what}, ${mode}`, {
      skip: WHY_NO_CGROUP,
    }, async (t) => {
      await using cgroup = await memoryCgroup(64 * 2 ** 20);
      await using node = await createNode(undefined, cgroup);
      await node.volume({ 'ip-masq-a': inside('10.0.0.0/8') });
      const args = [`--iptables-mode=${mode}`, '--backend=iptables', '--sync-timeout=60s'];
      assert.equal((await node.agent('--once', ...args)).code, 0);
      const tool = `iptables-${mode}`;
      const before = await node.run(tool, '-t', 'nat', '-S');
      const comment =
        what === 'of the agent' ? '-m comment --comment "ip-masq-agent: ip-masq-a: not masqueraded" ' : '';
      const rules = Array.from(
        { length: count },
        (_, index) =>
          `-A IP-MASQ-AGENT -d 11.${index >> 15}.${(index >> 7) & 255}.${(index & 127) * 2}/32 ${comment}-j RETURN`,
      );
      const fill = () => node.restore(`${tool}-restore`, ...rules);
      await fill();
      const { code, signal, stderr } = await node.agent('--once', ...args);
      assert.deepEqual([code, signal], [0, null], stderr);
      assert.equal(await node.run(tool, '-t', 'nat', '-S'), before);
      await fill();
      const removed = await node.agent('cleanup', ...args);
      assert.deepEqual([removed.code, removed.signal], [0, null], removed.stderr);
      assert.doesNotMatch(await node.run(tool, '-t', 'nat', '-S'), /IP-MASQ-AGENT/);
      t.diagnostic(`${((await cgroup.peak()) / 2 ** 20).toFixed(1)} MiB, ${await cgroup.kills()} kills`);
    });
});
