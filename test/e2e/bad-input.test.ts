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
  /** Where the log finds it. */
  readonly place: string;
}

/** One for each step that can refuse a config: the unit tests of the step have all the others, and the messages. */
const BAD_CONFIGS: readonly BadConfig[] = [
  { what: 'a missing directory', config: ({ configDir }) => rm(configDir, { recursive: true }), place: '' },
  {
    what: 'a FIFO in the place of a source',
    config: async ({ configDir }) => execFileSync('mkfifo', [join(configDir, 'ip-masq-x')]),
    place: 'ip-masq-x: ',
  },
  {
    what: 'a link out of the volume',
    config: ({ configDir }) => symlink('/etc/hostname', join(configDir, 'ip-masq-x')),
    place: 'ip-masq-x: ',
  },
  { what: '2 MiB of text', config: `# ${'x'.repeat(2 * 1024 * 1024)}\n`, place: 'ip-masq-x: ' },
  {
    what: 'invalid UTF-8',
    config: Buffer.from('masqLinkLocal: \xfftrue\n', 'latin1'),
    place: 'ip-masq-x:1:16: ',
  },
  { what: 'text that is not YAML', config: 'masq: link: local\n', place: 'ip-masq-x:1:11: ' },
  { what: 'a nesting bomb', config: '['.repeat(100_000), place: 'ip-masq-x:1:16: ' },
  { what: 'an unknown key', config: 'nonMasqueradeCIDR: []\n', place: 'ip-masq-x:1:1: ' },
  { what: 'host bits', config: 'nonMasqueradeCIDRs: [10.0.0.1/8]\n', place: 'ip-masq-x:1:22: ' },
  {
    what: '65 entries without cidrLimit',
    config: `nonMasqueradeCIDRs:\n${Array.from({ length: 65 }, (_, index) => `  - 10.${index}.0.0/16\n`).join('')}`,
    place: 'ip-masq-x:66:5: ',
  },
  {
    what: 'one prefix in both lists',
    config: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeCIDRs: [10.0.0.0/8]\n',
    place: 'ip-masq-x:2:19: ',
  },
  {
    what: 'two resync intervals',
    config: async ({ configDir }) => {
      await writeFile(join(configDir, 'ip-masq-a'), 'resyncInterval: 60s\n');
      await writeFile(join(configDir, 'ip-masq-b'), 'resyncInterval: 1m1s\n');
    },
    place: 'ip-masq-b:1:17: ',
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

  for (const { what, config, place } of BAD_CONFIGS) {
    it(what, async () => {
      await rm(node.configDir, { recursive: true, force: true });
      await mkdir(node.configDir);
      if (typeof config === 'function') await config(node);
      else await writeFile(join(node.configDir, 'ip-masq-x'), config);

      const { code, stderr } = await node.agent('--once', '--log-format=text');
      assert.equal(code, 3, stderr);
      assert.match(stderr, new RegExp(` ERROR ${place}error: `));
      assert.equal(await node.kernel(), kernel);
    });
  }
});

describe('wrong usage ends the agent with exit code 2 and leaves the kernel alone:', () => {
  for (const argument of ['--masq-chian=X', '--masq-chain=POSTROUTING', 'frobnicate']) {
    it(argument, async () => {
      await using node = await createNode();
      const before = await node.kernel();
      const { code, stdout, stderr } = await node.agent(argument);
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr, /^ip-masq-agent: .*\n$/);
      assert.equal(await node.kernel(), before);
    });
  }
});
