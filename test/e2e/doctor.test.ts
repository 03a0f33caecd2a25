import assert from 'node:assert/strict';
import { chmod, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { FINDING_MEANING } from '../../lib/doctor/finding.ts';
import { NEIGHBOURS } from '../lab/neighbours-iptables.ts';
import { olderAgentRules } from '../lab/older-agent.ts';
import type { RunResult } from '../lab/run.ts';
import { IS_ROOT } from '../lab/user.ts';
import { BINARY, besideAgent, createNode, type NodeLab } from './support.ts';

const MODES = ['nft', 'legacy'] as const;
type Mode = (typeof MODES)[number];

const CONFIG = 'nonMasqueradeCIDRs:\n  - 10.0.0.0/8\n  - "fd00::/8"\n';

/** What makes a healthy node a sick one, and what the doctor says of it: kind, family, message, evidence, remedy. */
interface Case {
  readonly what: string;
  readonly make: (node: NodeLab, mode: Mode) => Promise<unknown>;
  readonly findings: readonly (readonly [kind: string, message: RegExp, evidence: RegExp, remedy: RegExp])[];
}

const notLast = (family: string) =>
  [
    `jump-not-last ${family}`,
    /the agent's jump is not the last rule/,
    /-A POSTROUTING/,
    /foreign-rule/,
  ] as const;

const CASES: readonly Case[] = [
  {
    what: 'a jump that is missing',
    make: (node, mode) => iptables(node, mode, '-F POSTROUTING'),
    findings: [['out-of-sync IPv4', /jump missing/, /^missing: -A POSTROUTING/, /ip-masq-agent diff/]],
  },
  {
    what: 'a jump too many',
    make: (node, mode) => iptables(node, mode, '-A POSTROUTING -j IP-MASQ-AGENT'),
    findings: [['out-of-sync IPv4', /jump outdated/, /^extra: -A POSTROUTING -j IP-MASQ-AGENT$/, /diff/]],
  },
  {
    what: 'a rule of ours that is gone',
    make: (node, mode) => iptables(node, mode, '-D IP-MASQ-AGENT 2'),
    findings: [['out-of-sync IPv4', /rules differ/, /^missing: -A IP-MASQ-AGENT -d 10\.0\.0\.0\/8 /, /diff/]],
  },
  {
    what: 'a chain of the same name that v1 or v2 has written',
    make: async (node, mode) => {
      await iptables(node, mode, '-F POSTROUTING');
      await restore(node, mode, 'IPv4', olderAgentRules());
    },
    findings: [
      [
        'older-agent IPv4',
        /^ip-masq-agent v1 or v2 has written rules for the agent's chain in iptables [\d.]+ \(\w+\)$/,
        /subject to MASQUERADE/,
        /remove the DaemonSet of the older agent/,
      ],
    ],
  },
  {
    what: 'a jump of v2 beside our own',
    make: (node, mode) => restore(node, mode, 'IPv4', olderAgentRules().slice(1, 2)),
    findings: [
      ['older-agent IPv4', /has written rules/, /"\\"ip-masq-agent: ensure/, /remove the DaemonSet/],
    ],
  },
  {
    what: 'a rule behind our jump that does no harm',
    make: (node, mode) => iptables(node, mode, '-A POSTROUTING -d 192.0.2.1 -j ACCEPT'),
    findings: [notLast('IPv4')],
  },
  {
    what: 'forwarding turned off',
    make: async (node) => {
      await sysctl(node, 'ipv4/ip_forward', '0');
      await sysctl(node, 'ipv6/conf/all/forwarding', '0');
    },
    findings: [
      [
        'forwarding-off IPv4',
        /does not forward/,
        /^net\.ipv4\.ip_forward = 0$/,
        /sysctl -w net\.ipv4\.ip_forward=1/,
      ],
      ['forwarding-off IPv6', /does not forward/, /^net\.ipv6\.conf\.all\.forwarding = 0$/, /sysctl -w/],
    ],
  },
  {
    what: 'a link of Cilium, which may masquerade by BPF',
    make: async (node) => {
      const { code, stderr } = await node.box.run('ip', ['link', 'add', 'cilium_host', 'type', 'veth']);
      assert.equal(code, 0, stderr);
    },
    findings: [['bpf-masquerade', /BPF .* past all rules/, /^link cilium_host$/, /enable-bpf-masquerade/]],
  },
  {
    what: 'a config directory that is missing',
    make: (node) => rm(node.configDir, { recursive: true }),
    findings: [
      [
        'config-unreadable',
        /the config directory .* cannot be read/,
        /missing or not a directory/,
        /--config-dir/,
      ],
    ],
  },
  {
    what: 'a config with mistakes',
    make: (node) => writeFile(join(node.configDir, 'ip-masq-x'), 'masqLinkLocal: 1\n'),
    findings: [
      ['config-invalid', /^1 error in the config$/, /^ip-masq-x:1:16: error: /, /ip-masq-agent check/],
    ],
  },
  {
    what: 'a list that somebody has emptied',
    make: async (node, mode) => {
      await writeFile(join(node.configDir, 'ip-masq-cloud'), 'nonMasqueradeCIDRs: ["fd00::/8"]\n');
      assert.equal((await node.agent('--once', ...flags(mode))).code, 0);
    },
    findings: [
      [
        'nothing-inside',
        /no IPv4 range but link-local is inside/,
        /^ip-masq-cloud:1:21$/,
        /nonMasqueradeCIDRs/,
      ],
    ],
  },
];

for (const mode of MODES) {
  describe(`the doctor, ${mode}`, () => {
    it('finds nothing on a healthy node with the rules of kube-proxy', async () => {
      await using node = await healthyNode(mode);
      const { code, stdout, stderr } = await examined(node, ...flags(mode));
      assert.deepEqual([code, stderr], [0, '']);
      assert.match(
        stdout,
        /^nothing found; looked at 1 source in \S+; iptables .*(?:; ip6?tables \([^;]*){2,}\n$/,
      );
    });

    for (const { what, make, findings } of CASES) {
      it(`finds ${what}, and nothing else`, async () => {
        await using node = await healthyNode(mode);
        await make(node, mode);
        const before = await node.kernel();
        const result = await examined(node, ...flags(mode), '--output=json');
        assert.equal(await node.kernel(), before);
        finds(result, findings);
      });
    }

    for (const { name, lines, found } of NEIGHBOURS) {
      it(`finds the rules of ${name} in both families, and nothing else`, async () => {
        await using node = await healthyNode(mode);
        for (const family of ['IPv4', 'IPv6'] as const) await restore(node, mode, family, lines[family]);
        const foreign = (family: 'IPv4' | 'IPv6') => {
          const author = found[family][0]?.split(':')[0] ?? '';
          const message = new RegExp(
            `(a|\\d) rules? of ${literal(author)} in ip6?tables \\(${mode}\\) nat POSTROUTING may`,
          );
          return [`foreign-rule ${family}`, message, /-j MASQUERADE/, /./] as const;
        };
        finds(await examined(node, ...flags(mode), '--output=json'), [
          notLast('IPv4'),
          notLast('IPv6'),
          foreign('IPv4'),
          foreign('IPv6'),
        ]);
      });
    }

    it('takes the rules that a CNI plugin makes for each pod for one finding', async () => {
      await using node = await healthyNode(mode);
      const chain = (pod: number) => `CNI-${pod}7b0d2e1c4f5a6978812345a`;
      const pods = Array.from({ length: 5 }, (_, pod) => [
        `:${chain(pod)} - [0:0]`,
        `-A ${chain(pod)} -d 10.88.0.0/16 -j ACCEPT`,
        `-A ${chain(pod)} ! -d 224.0.0.0/4 -j MASQUERADE`,
        `-A POSTROUTING -s 10.88.0.${pod}/32 -m comment --comment "name: \\"net\\" id: \\"${pod}\\"" -j ${chain(pod)}`,
      ]);
      await restore(node, mode, 'IPv4', pods.flat());
      finds(await examined(node, ...flags(mode), '--output=json'), [
        notLast('IPv4'),
        ['foreign-rule IPv4', /5 rules of a CNI plugin in /, /… and 2 more$/, /./],
      ]);
    });

    it('finds so many rules of unknown authors at most, and that there are more', async () => {
      await using node = await healthyNode(mode);
      const rules = Array.from({ length: 25 }, (_, index) => `-A POSTROUTING -o e${index} -j MASQUERADE`);
      await restore(node, mode, 'IPv4', rules);
      const unknown = ['foreign-rule IPv4', /an unknown author/, /-j MASQUERADE/, /./] as const;
      finds(await examined(node, ...flags(mode), '--output=json'), [
        notLast('IPv4'),
        ...Array.from({ length: 20 }, () => unknown),
        ['not-looked-at', /may be hidden/, /too many foreign rules to analyse/, /by hand/],
      ]);
    });

    it('finds that there is no source', async () => {
      await using node = await healthyNode(mode);
      await rm(join(node.configDir, 'ip-masq-cloud'));
      await node.agent('--once', ...flags(mode));
      finds(await examined(node, ...flags(mode), '--output=json'), [
        ['config-empty', /the defaults apply/, /has no file ip-masq-\*/, /ip-masq-/],
        ['nothing-inside', /no source, and no IPv6 default/, /^$/, /nonMasqueradeCIDRs/],
      ]);
    });

    it('finds rules in both modes, and ours in the one that is not used', async () => {
      await using node = await healthyNode(mode);
      const other = mode === 'nft' ? 'legacy' : 'nft';
      await makeRules(node, other);
      finds(await examined(node, ...flags(mode), '--output=json'), [
        [
          'both-modes IPv4',
          /both iptables modes/,
          new RegExp(`\\(${mode}\\):\n.*-A POSTROUTING[^]*\\(${other}\\):\n.*-A POSTROUTING`),
          /one mode/,
        ],
        ['both-modes IPv6', /both iptables modes/, /-A POSTROUTING/, /one mode/],
        [
          'chain-elsewhere IPv4',
          new RegExp(`\\(${other}\\), but iptables .* \\(${mode}\\) is used`),
          /-A IP-MASQ-AGENT/,
          /cleanup/,
        ],
        ['chain-elsewhere IPv6', new RegExp(`\\(${other}\\), but`), /-A IP-MASQ-AGENT/, /cleanup/],
      ]);
    });
  });
}

describe('the doctor', () => {
  it('begins a finding with its kind and family in text too', async () => {
    await using node = await healthyNode('nft');
    await iptables(node, 'nft', '-F POSTROUTING');
    const { code, stdout } = await examined(node, ...flags('nft'));
    assert.equal(code, 4);
    assert.match(stdout, /^out-of-sync \(IPv4\): /m);
  });

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
    assert.match((await node.agent(...asked)).stdout, /"IPv6, nftables [\d.]+: \d+ rules"/);
  });

  it('finds rules of others in a chain of nftables', async () => {
    await using node = await healthyNode('nft');
    const table =
      'table ip theirs { chain post { type nat hook postrouting priority 100; ip daddr != 192.0.2.0/24 masquerade; }; }';
    assert.equal((await node.box.run('nft', ['-f', '-'], { input: table })).code, 0);
    finds(await examined(node, ...flags('nft'), '--output=json'), [
      ['foreign-rule IPv4', /nftables ip theirs post/, /daddr != 192\.0\.2\.0\/24/, /./],
    ]);
  });

  it('finds that kube-proxy in nftables mode may run behind the agent in iptables mode', async () => {
    await using node = await healthyNode('nft');
    const table =
      'table ip kube-proxy { chain nat-postrouting { type nat hook postrouting priority srcnat; meta mark & 0x4000 != 0 masquerade; }; }';
    assert.equal((await node.box.run('nft', ['-f', '-'], { input: table })).code, 0);
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

  it('finds a chain of IPv6 that is left although IPv6 is off', async () => {
    await using node = await healthyNode('nft');
    await writeFile(join(node.configDir, 'ip-masq-cloud'), 'nonMasqueradeCIDRs: [10.0.0.0/8]\n');
    finds(await examined(node, '--iptables-mode=nft', '--output=json'), [
      ['out-of-sync IPv6', /chain left over/, /^extra: /, /diff/],
    ]);
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

  it('finds that iptables is not installed', async () => {
    await using node = await healthyNode('nft');
    const result = await withTools(node, []);
    finds(result, [['tool-missing', /no iptables of .* is installed/, /^$/, /install iptables/]]);
  });

  it('finds that ip6tables is missing where IPv6 is on, and that nft is', async () => {
    await using node = await healthyNode('nft');
    const result = await withTools(node, ['iptables-nft', 'iptables-nft-restore']);
    const kinds = JSON.parse(result.stdout).findings.map(({ kind }: { kind: string }) => kind);
    assert.equal(result.code, 4);
    assert.ok(kinds.includes('tool-missing') || kinds.includes('not-looked-at'), kinds.join());
    assert.match(result.stdout, /"[^"]*ip6tables-nft /);
    assert.match(result.stdout, /"[^"]*\bnft /);
  });

  it('finds that iptables is too old', async () => {
    await using node = await healthyNode('nft');
    const result = await withTools(node, [], { iptables: '#!/bin/sh\necho "iptables v1.4.21"\n' });
    finds(result, [['tool-missing', /iptables 1\.4\.21 is too old/, /^$/, /1\.6\.2/]]);
  });

  it('has a meaning for every kind that these tests know', () => {
    const known = new Set(CASES.flatMap(({ findings }) => findings.map(([kind]) => kind.split(' ')[0])));
    for (const kind of known) assert.ok(kind !== undefined && kind in FINDING_MEANING, kind);
  });
});

/** What the doctor says beside an agent. */
function examined(node: NodeLab, ...args: readonly string[]): Promise<RunResult> {
  return besideAgent(node, () => node.agent('doctor', ...args));
}

function finds({ code, stdout, stderr }: RunResult, expected: Case['findings']): void {
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

function literal(text: string): string {
  return text.replace(/[()]/g, '\\$&');
}

async function restore(
  node: NodeLab,
  mode: Mode,
  family: 'IPv4' | 'IPv6',
  lines: readonly string[],
): Promise<void> {
  await node.restore(`${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${mode}-restore`, ...lines);
}

/** The rules of the agent in a mode: an agent itself would remove those in the other. */
async function makeRules(node: NodeLab, mode: Mode): Promise<void> {
  const { stdout } = await node.agent('render', '--enable-ipv6');
  for (const command of [`iptables-${mode}-restore`, `ip6tables-${mode}-restore`])
    assert.equal((await node.box.run(command, ['--noflush'], { input: stdout })).code, 0);
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

async function iptables(node: NodeLab, mode: Mode, rule: string): Promise<void> {
  await node.run(`iptables-${mode}`, '-t', 'nat', ...rule.split(' '));
}

async function sysctl(node: NodeLab, name: string, value: string): Promise<void> {
  const { code, stderr } = await node.box.run('tee', [`/proc/sys/net/${name}`], { input: value });
  assert.equal(code, 0, stderr);
}

/** Runs the doctor where only these of the machine's tools are found, and these scripts. */
async function withTools(
  node: NodeLab,
  tools: readonly string[],
  scripts: Readonly<Record<string, string>> = {},
): Promise<RunResult> {
  const bin = join(node.dir, 'bin');
  await mkdir(bin);
  for (const tool of tools) await symlink(`/usr/sbin/${tool}`, join(bin, tool));
  for (const [name, text] of Object.entries(scripts)) {
    await writeFile(join(bin, name), text);
    await chmod(join(bin, name), 0o755);
  }
  const command = [BINARY, 'doctor', `--config-dir=${node.configDir}`, '--enable-ipv6', '--output=json'];
  return besideAgent(node, () => node.box.run('env', [`PATH=${bin}`, ...command]));
}

/** Arguments of setpriv(1) that take a capability away. */
function withoutCapability(name: string): readonly string[] {
  const ambient = IS_ROOT ? [] : ['--ambient-caps=-all'];
  return [`--bounding-set=-${name}`, `--inh-caps=-${name}`, ...ambient];
}
