import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createNode, type NodeLab } from './support.ts';

interface BadConfig {
  readonly what: string;
  /** The text of the one source `ip-masq-x`, or what makes the config directory what it is. */
  readonly config: string | Buffer | ((node: NodeLab) => Promise<unknown>);
  /** File, line and column, then what was found. */
  readonly says: RegExp;
  readonly remedy: RegExp;
}

const list = (...items: string[]) => `nonMasqueradeCIDRs:\n${items.map((item) => `  - ${item}\n`).join('')}`;
const cidr = (text: string, says: RegExp, remedy: RegExp): BadConfig => ({
  what: `the CIDR ${text}`,
  config: list('10.0.0.0/8', text),
  says: new RegExp(`ip-masq-x:3:5: error: .*${says.source}`),
  remedy,
});

const BAD_CONFIGS: readonly BadConfig[] = [
  {
    what: 'text that is not YAML',
    config: 'masq: link: local\n',
    says: /ip-masq-x:1:11: error: is not valid YAML/,
    remedy: /check indentation/,
  },
  {
    what: 'a tab for indentation',
    config: 'nonMasqueradeCIDRs:\n\t- 10.0.0.0/8\n',
    says: /ip-masq-x:2:1: .*tab/,
    remedy: /indent with spaces/,
  },
  {
    what: 'a truncated file',
    config: 'nonMasqueradeCIDRs: ["10.0.0.0/8", "19',
    says: /ip-masq-x:1:\d+: .*end of the stream/,
    remedy: /cut off/,
  },
  {
    what: 'two documents',
    config: `${list('10.0.0.0/8')}---\nmasqLinkLocal: true\n`,
    says: /ip-masq-x:4:1: .*more than one YAML document/,
    remedy: /keep one/,
  },
  {
    what: 'a list at the top',
    config: '- 10.0.0.0/8\n',
    says: /ip-masq-x:1:1: .*must be a map/,
    remedy: /nonMasqueradeCIDRs:/,
  },
  {
    what: 'a ConfigMap manifest instead of its data',
    config:
      'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  ip-masq-x: |\n    masqLinkLocal: true\n',
    says: /ip-masq-x:1:1: .*Kubernetes manifest/,
    remedy: /below "data:"/,
  },
  {
    what: 'duplicate keys',
    config: 'masqLinkLocal: true\nmasqLinkLocal: true\n',
    says: /ip-masq-x:2:1: .*set twice \(the other: ip-masq-x:1:1\)/,
    remedy: /keep one/,
  },
  {
    what: 'keys equal but for case',
    config: 'masqLinkLocal: true\nMASQlinkLOCAL: true\n',
    says: /ip-masq-x:2:1: .*set twice/,
    remedy: /whatever their case/,
  },
  {
    what: 'an unknown key',
    config: 'nonMasqueradeCIDR: []\n',
    says: /ip-masq-x:1:1: .*unknown key "nonMasqueradeCIDR"/,
    remedy: /did you mean "nonMasqueradeCIDRs"/,
  },
  {
    what: 'a string for a list',
    config: 'nonMasqueradeCIDRs: 10.0.0.0/8\n',
    says: /ip-masq-x:1:21: .*must be a list/,
    remedy: /behind a dash/,
  },
  {
    what: 'a null list item',
    config: list('10.0.0.0/8', '~'),
    says: /ip-masq-x:3:5: .*item 2 of nonMasqueradeCIDRs must be text, but is empty/,
    remedy: /remove it/,
  },
  {
    what: 'an empty list item',
    config: 'nonMasqueradeCIDRs:\n  - 10.0.0.0/8\n  - \n',
    says: /ip-masq-x:3:3: .*item 2 .* empty/,
    remedy: /remove it/,
  },
  {
    what: 'a number as CIDR',
    config: list('10.0'),
    says: /ip-masq-x:2:5: .*the number 10/,
    remedy: /10\.0\.0\.0\/8/,
  },
  cidr('10.0.0.1/8', /bits after \/8 are set/, /write 10\.0\.0\.0\/8 .* or 10\.0\.0\.1\/32/),
  cidr('10.0.0.0', /no prefix length/, /write 10\.0\.0\.0\/32/),
  cidr('10.0.0.0/33', /from 0 to 32/, /from 0 to 32/),
  cidr('010.0.0.0/8', /leading zeros/, /write 10\.0\.0\.0\/8/),
  cidr('10.0.0.0/08', /leading zeros/, /write 10\.0\.0\.0\/8/),
  cidr('10.0.0.0/+8', /sign/, /write 10\.0\.0\.0\/8/),
  cidr('" 10.0.0.0/8"', /white space/, /write 10\.0\.0\.0\/8/),
  cidr('"fe80::%eth0/10"', /zone id/, /write fe80::\/10/),
  cidr('"::ffff:10.0.0.0/104"', /IPv4-mapped/, /write 10\.0\.0\.0\/8/),
  cidr('""', /is empty/, /remove the item/),
  cidr('true', /the boolean true/, /10\.0\.0\.0\/8/),
  {
    what: 'an IPv6 entry without --enable-ipv6',
    config: list('"fd00::/8"'),
    says: /ip-masq-x:2:5: .*IPv6 is not enabled/,
    remedy: /--enable-ipv6/,
  },
  {
    what: '65 entries without cidrLimit',
    config: list(...Array.from({ length: 65 }, (_, index) => `10.${index}.0.0/16`)),
    says: /ip-masq-x:66:5: .*65 CIDRs, but this source may list only 64/,
    remedy: /raise "cidrLimit"/,
  },
  {
    what: 'an alias bomb',
    config: `a: &a [x,x,x,x,x,x,x,x,x]\n${Array.from({ length: 40 }, (_, i) => `k${i}: &k${i} [${Array(9).fill(`*${i === 0 ? 'a' : `k${i - 1}`}`)}]`).join('\n')}\n`,
    says: /ip-masq-x:\d+:\d+: .*more than 100 aliases/,
    remedy: /write the values out/,
  },
  {
    what: 'a nesting bomb',
    config: '['.repeat(100_000),
    says: /ip-masq-x:1:\d+: .*nesting exceeded/,
    remedy: /remove the nesting/,
  },
  {
    what: '2 MiB of text',
    config: `# ${'x'.repeat(2 * 1024 * 1024)}\n`,
    says: /ip-masq-x: error: is larger than 1 MiB/,
    remedy: /split it/,
  },
  {
    what: 'invalid UTF-8',
    config: Buffer.from('masqLinkLocal: \xfftrue\n', 'latin1'),
    says: /ip-masq-x:1:16: .*not UTF-8/,
    remedy: /UTF-8/,
  },
  {
    what: 'a NUL byte',
    config: 'masqLinkLocal: \0true\n',
    says: /ip-masq-x:1:16: .*NUL byte/,
    remedy: /plain text/,
  },
  {
    what: 'a __proto__ key',
    config: '__proto__: {masqLinkLocal: true}\n',
    says: /ip-masq-x:1:1: .*unknown key "__proto__"/,
    remedy: /known keys/,
  },
  {
    what: 'a constructor key',
    config: 'constructor: 1\n',
    says: /ip-masq-x:1:1: .*unknown key "constructor"/,
    remedy: /known keys/,
  },
  {
    what: 'a directory named ip-masq-x',
    config: ({ configDir }) => mkdir(join(configDir, 'ip-masq-x')),
    says: /ip-masq-x: error: is not a regular file/,
    remedy: /remove it/,
  },
  {
    what: 'a FIFO named ip-masq-x',
    config: async ({ configDir }) => execFileSync('mkfifo', [join(configDir, 'ip-masq-x')]),
    says: /ip-masq-x: error: is not a regular file/,
    remedy: /remove it/,
  },
  {
    what: 'a dangling link',
    config: ({ configDir }) => symlink('nowhere', join(configDir, 'ip-masq-x')),
    says: /ip-masq-x: error: is a link to nothing/,
    remedy: /remove it/,
  },
  {
    what: 'a link out of the volume',
    config: ({ configDir }) => symlink('/etc/hostname', join(configDir, 'ip-masq-x')),
    says: /ip-masq-x: error: is a link that leads out/,
    remedy: /mount the file itself/,
  },
  {
    what: 'a missing config directory',
    config: ({ configDir }) => rm(configDir, { recursive: true }),
    says: /config directory .* is missing/,
    remedy: /--config-dir/,
  },
  {
    what: 'one prefix in both lists',
    config: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.0.0.0/8]\n',
    says: /ip-masq-x:2:19: error: 10\.0\.0\.0\/8 is in nonMasqueradeCIDRs and in masqueradeCIDRs \(the other: ip-masq-x:1:22\)/,
    remedy: /one of the two lists/,
  },
  {
    what: 'two resync intervals',
    config: async ({ configDir }) => {
      await writeFile(join(configDir, 'ip-masq-a'), 'resyncInterval: 60s\n');
      await writeFile(join(configDir, 'ip-masq-b'), 'resyncInterval: 1m1s\n');
    },
    says: /ip-masq-b:1:17: error: resyncInterval .*the other: ip-masq-a:1:17/,
    remedy: /same value/,
  },
];

describe('a bad config ends the agent with exit code 3 and leaves the kernel alone:', () => {
  let node: NodeLab;
  let kernel: string;

  before(async () => {
    node = await createNode();
    await writeFile(join(node.configDir, 'ip-masq-x'), 'nonMasqueradeCIDRs: [10.0.0.0/8]\n');
    for (const mode of ['nft', 'legacy']) {
      assert.equal((await node.agent('--once', '--enable-ipv6', `--iptables-mode=${mode}`)).code, 0);
    }
    kernel = await node.kernel();
    assert.match(kernel, /-A IP-MASQ-AGENT -d 10\.0\.0\.0\/8/);
  });

  after(() => node[Symbol.asyncDispose]());

  for (const { what, config, says, remedy } of BAD_CONFIGS) {
    it(what, async () => {
      await rm(node.configDir, { recursive: true, force: true });
      await mkdir(node.configDir);
      if (typeof config === 'function') await config(node);
      else await writeFile(join(node.configDir, 'ip-masq-x'), config);

      const { code, stderr } = await node.agent('--once', '--log-format=text');
      assert.equal(code, 3, stderr);
      const [line = ''] = stderr.split('\n').filter((text) => text.includes(' ERROR '));
      assert.match(line, says);
      assert.match(line.slice(line.indexOf('; ')), remedy);
      assert.equal(await node.kernel(), kernel);
    });
  }
});

describe('wrong usage ends the agent with exit code 2 and leaves the kernel alone:', () => {
  const BAD_FLAGS: readonly (readonly [string, RegExp])[] = [
    ['--masq-chian=X', /unknown flag "--masq-chian": did you mean --masq-chain\?/],
    ['--masq-chain=A-chain_of-29-characters-1234', /at most 28/],
    ['--masq-chain=-dash', /no leading dash/],
    ['--masq-chain=a b', /cannot be a chain of ours/],
    ['--masq-chain=POSTROUTING', /no chain of iptables/],
    ['--masq-chain=ACCEPT', /no chain of iptables/],
    ['--masq-chain=KUBE-POSTROUTING', /or Kubernetes/],
    ['--masq-chain=', /cannot be a chain of ours/],
    ['--enable-ipv6=yes', /write true or false/],
    ['--resync-interval=1 minute', /write seconds, or a Go duration/],
    ['--resync-interval=0', /100ms/],
    ['--sync-timeout', /--sync-timeout needs a value/],
    ['--to-ports=0-10', /list of port ranges/],
    ['--to-ports=20-10', /list of port ranges/],
    ['--to-ports=1-10,5-20', /list of port ranges/],
    ['--iptables-mode=nftables', /write auto or nft or legacy/],
    ['--backend=ipvs', /write iptables/],
    ['--cidr-limit=-1', /whole number/],
    ['--log-format=xml', /write json or text/],
    ['--metrics-bind-address=localhost', /127\.0\.0\.1:9614/],
    ['--config-dir=', /is not a path/],
    ['--v=loud', /whole number/],
    ['frobnicate', /unknown command "frobnicate"/],
    ['---', /is not a flag/],
  ];
  let node: NodeLab;

  before(async () => {
    node = await createNode();
  });

  after(() => node[Symbol.asyncDispose]());

  for (const [argument, says] of BAD_FLAGS) {
    it(argument, async () => {
      const before = await node.kernel();
      const { code, stdout, stderr } = await node.agent(argument);
      assert.equal(code, 2, stderr);
      assert.equal(stdout, '');
      assert.match(stderr, says);
      assert.equal(stderr.trimEnd().split('\n').length, 1);
      assert.equal(await node.kernel(), before);
    });
  }
});
