import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { kubeProxyTable } from '../lab/kube-proxy.ts';
import type { RunResult } from '../lab/run.ts';
import { IS_ROOT } from '../lab/user.ts';
import { BINARY, besideAgent, createNode, type NodeLab } from './support.ts';

type Mode = 'nft' | 'legacy';

const CONFIG = 'nonMasqueradeCIDRs:\n  - 10.0.0.0/8\n  - "fd00::/8"\n';

/** What the doctor says: kind and family, message, evidence, remedy. */
type Finding = readonly [kind: string, message: RegExp, evidence: RegExp, remedy: RegExp];

describe('the doctor', () => {
  it('finds rules that no agent keeps, in every place, and none where there are no rules', async () => {
    await using node = await healthyNode('nft');
    const asked = ['doctor', ...flags('nft'), '--output=json'];
    const dead = [
      'no-agent',
      /no agent runs on this node/,
      /^IPv4, iptables [\d.]+ \(nft\): 4 rules\nIPv6, iptables [\d.]+ \(nft\): 4 rules$/,
      /pod of the DaemonSet/,
    ] as const;
    finds(await node.agent(...asked), [dead]);
    await writeFile(join(node.configDir, 'ip-masq-cloud'), 'masqLinkLocal: 1\n');
    const { stdout } = await node.agent(...asked);
    assert.deepEqual(
      JSON.parse(stdout).findings.map(({ kind }: { kind: string }) => kind),
      ['config-invalid', 'no-agent'],
    );
    await writeFile(join(node.configDir, 'ip-masq-cloud'), CONFIG);
    assert.equal((await node.agent('cleanup')).code, 0);
    assert.doesNotMatch((await node.agent(...asked)).stdout, /no-agent/);
    assert.equal((await node.agent('--once', '--enable-ipv6', '--backend=nftables')).code, 0);
    assert.match((await node.agent(...asked)).stdout, /"IPv6, nftables: \d+ rules"/);
  });

  it('lists foreign rules with an invalid config too, and those that change addresses without connection tracking', async () => {
    await using node = await healthyNode('nft');
    await node.nft(`table ip site {
      chain early { type filter hook prerouting priority -150; ip saddr 192.0.2.1 ip saddr set 10.9.9.9; accept; }
      chain post { type nat hook postrouting priority 90; oifname "eth9" masquerade; }
    }`);
    const stateless = [
      'stateless-nat IPv4',
      /^a rule .* nftables ip site early may change addresses of traffic to every destination without connection tracking/,
      /chain early: ip saddr 192\.0\.2\.1 ip saddr set 10\.9\.9\.9\n/,
      /--accept-foreign=site\/early/,
    ] as const;
    finds(await examined(node, ...flags('nft'), '--output=json'), [
      ['foreign-rule IPv4', /which the config does not masquerade/, /oifname "eth9" masquerade/, /./],
      stateless,
    ]);
    await writeFile(join(node.configDir, 'ip-masq-cloud'), 'masqLinkLocal: 1\n');
    finds(await examined(node, ...flags('nft'), '--output=json'), [
      ['config-invalid', /1 error/, /masqLinkLocal/, /./],
      ['foreign-rule IPv4', /every destination; what the config says .* not known/, /oifname "eth9"/, /./],
      stateless,
    ]);
  });

  it('finds that kube-proxy in nftables mode may run behind the agent in iptables mode', async () => {
    await using node = await healthyNode('nft');
    assert.equal((await node.box.run('nft', ['-f', '-'], { input: kubeProxyTable('ip') })).code, 0);
    finds(await examined(node, ...flags('nft'), '--output=json'), [
      [
        'kube-proxy-order IPv4',
        /have one priority: those registered later run first/,
        /^nftables ip kube-proxy nat-postrouting: priority srcnat/,
        /--backend=nftables/,
      ],
    ]);
    const accepted = await examined(node, ...flags('nft'), '--accept-foreign=kube-proxy');
    assert.equal(accepted.code, 0, accepted.stdout);
    assert.equal((await node.agent('--once', '--enable-ipv6', '--backend=nftables')).code, 0);
    const nftables = await examined(node, '--enable-ipv6', '--backend=nftables');
    assert.equal(nftables.code, 0, nftables.stdout);
  });

  it('finds that NET_ADMIN is missing, and looks at no rule then', async () => {
    await using node = await healthyNode('nft');
    const without = withoutCapability('net_admin');
    const command = [BINARY, 'doctor', `--config-dir=${node.configDir}`, ...flags('nft'), '--output=json'];
    finds(await besideAgent(node, () => node.box.run('setpriv', [...without, ...command])), [
      ['no-capability', /lacks NET_ADMIN,/, /NET_ADMIN is not in CapEff/, /NET_ADMIN and NET_RAW/],
    ]);
  });

  it('needs NET_RAW for iptables, and not for nftables', async () => {
    await using node = await healthyNode('nft');
    const without = withoutCapability('net_raw');
    const kindsOf = async (flag: string): Promise<readonly string[]> => {
      const command = [BINARY, 'doctor', `--config-dir=${node.configDir}`, flag, '--output=json'];
      const { stdout } = await node.box.run('setpriv', [...without, ...command]);
      return JSON.parse(stdout).findings.map(({ kind }: { kind: string }) => kind);
    };
    assert.ok((await kindsOf('--iptables-mode=nft')).includes('no-capability'));
    assert.ok(!(await kindsOf('--backend=nftables')).includes('no-capability'));
  });
});

/** What the doctor says beside an agent. */
function examined(node: NodeLab, ...args: readonly string[]): Promise<RunResult> {
  return besideAgent(node, () => node.agent('doctor', ...args));
}

function finds({ code, stdout, stderr }: RunResult, expected: readonly Finding[]): void {
  assert.equal(stderr, '');
  const { findings } = JSON.parse(stdout);
  const kinds = findings.map(({ kind, family }: { kind: string; family?: string }) =>
    family === undefined ? kind : `${kind} ${family}`,
  );
  assert.deepEqual(
    kinds,
    expected.map(([kind]) => kind),
    stdout,
  );
  for (const [index, [, message, evidence, remedy]] of expected.entries()) {
    assert.match(findings[index].message, message);
    assert.match(findings[index].evidence.join('\n'), evidence);
    assert.match(findings[index].remedy, remedy);
  }
  assert.equal(code, kinds.some((kind: string) => /^config-(?:invalid|unreadable)$/.test(kind)) ? 3 : 4);
}

async function restore(
  node: NodeLab,
  mode: Mode,
  family: 'IPv4' | 'IPv6',
  lines: readonly string[],
): Promise<void> {
  await node.restore(`${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${mode}-restore`, ...lines);
}

/** Forwards, has a config and its rules, and those that kube-proxy makes before. */
async function healthyNode(mode: Mode): Promise<NodeLab> {
  const node = await createNode();
  await sysctl(node, 'ipv4/ip_forward', '1');
  await sysctl(node, 'ipv6/conf/all/forwarding', '1');
  await writeFile(join(node.configDir, 'ip-masq-cloud'), CONFIG);
  await restore(node, mode, 'IPv4', [
    ':KUBE-POSTROUTING - [0:0]',
    '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
    '-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000',
    '-A KUBE-POSTROUTING -j MASQUERADE --random-fully',
    '-A POSTROUTING -j KUBE-POSTROUTING',
  ]);
  assert.equal((await node.agent('--once', ...flags(mode))).code, 0);
  return node;
}

function flags(mode: Mode): readonly string[] {
  return ['--enable-ipv6', `--iptables-mode=${mode}`];
}

async function sysctl(node: NodeLab, name: string, value: string): Promise<void> {
  const { code, stderr } = await node.box.run('tee', [`/proc/sys/net/${name}`], { input: value });
  assert.equal(code, 0, stderr);
}

/** Arguments of setpriv(1) that take a capability away. */
function withoutCapability(name: string): readonly string[] {
  const ambient = IS_ROOT ? [] : ['--ambient-caps=-all'];
  return [`--bounding-set=-${name}`, `--inh-caps=-${name}`, ...ambient];
}
