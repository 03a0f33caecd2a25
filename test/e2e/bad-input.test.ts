import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BINARY, createNode, type NodeLab } from './support.ts';

interface BadConfig {
  readonly what: string;
  /** The text of the one config file `ip-masq-x`, or what makes the config directory what it is. */
  readonly config: string | Buffer | ((node: NodeLab) => Promise<unknown>);
  /** Where the log finds it. */
  readonly place: string;
}

/** One for each step that can refuse a config: the unit tests of the step have all the others, and the messages. */
const BAD_CONFIGS: readonly BadConfig[] = [
  { what: 'a missing directory', config: ({ configDir }) => rm(configDir, { recursive: true }), place: '' },
  {
    what: 'a FIFO in the place of a config file',
    config: async ({ configDir }) => execFileSync('mkfifo', [join(configDir, 'ip-masq-x')]),
    place: 'ip-masq-x: ',
  },
  {
    what: 'a link out of the volume',
    config: ({ configDir }) => symlink('/etc/hostname', join(configDir, 'ip-masq-x')),
    place: 'ip-masq-x: ',
  },
  { what: 'a nesting bomb', config: '['.repeat(1_000), place: 'ip-masq-x:1:16: ' },
  { what: 'an unknown key', config: 'nonMasqueradeCIDR: []\n', place: 'ip-masq-x:1:1: ' },
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
];

/** Megabytes for values of the program: with what Node takes beside, it fits in the memory limit of the manifest. */
const HEAP_MB = 24;

/** Texts that must not stop the agent, which reads the config files of others too. */
const HOSTILE: readonly Pick<BadConfig, 'what' | 'config' | 'place'>[] = [
  {
    what: 'empty items',
    config: `nonMasqueradeCIDRs:\n${'-\n'.repeat(500_000)}`,
    place: 'ip-masq-x:8001:1: ',
  },
  { what: 'one key again and again', config: 'a: 1\n'.repeat(200_000), place: 'ip-masq-x:8001:2: ' },
  {
    what: 'many bad CIDRs',
    config: `nonMasqueradeCIDRs:\n${'- 10.0.0.1/8\n'.repeat(80_000)}`,
    place: 'ip-masq-x:8001:1: ',
  },
  {
    what: 'empty keys behind blank lines',
    config: `?${'\n'.repeat(500_000)}${'?\n'.repeat(262_000)}`,
    place: 'ip-masq-x:100001:1: ',
  },
  {
    what: 'blank lines before a mistake',
    config: `a:${'\n'.repeat(1_000_000)}@`,
    place: 'ip-masq-x:100001:1: ',
  },
  { what: 'items behind comments', config: '#\r-\n'.repeat(250_000), place: 'ip-masq-x:16002:1: ' },
  { what: 'documents', config: '---\n'.repeat(250_000), place: 'ip-masq-x:8001:3: ' },
  { what: 'a value of many lines', config: `a: "${'\n b'.repeat(99_000)}"`, place: 'ip-masq-x:1:5: ' },
  {
    what: 'a limit that lifts itself',
    config: `cidrLimit: 1000000\nnonMasqueradeCIDRs: [${'10.0.0.0/8,'.repeat(7_900)}]\n`,
    place: 'ip-masq-x:1:12: ',
  },
  {
    what: 'many mistakes in each of many config files',
    config: async ({ configDir }) => {
      for (let index = 100; index < 1000; index += 1)
        await writeFile(join(configDir, `ip-masq-${index}`), 'a: 1\n'.repeat(400));
    },
    place: 'ip-masq-100:1:1: ',
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

describe('a hostile config ends the agent with exit code 3 although memory is short:', () => {
  for (const { what, config, place } of HOSTILE) {
    it(what, async () => {
      await using node = await createNode();
      if (typeof config === 'function') await config(node);
      else await writeFile(join(node.configDir, 'ip-masq-x'), config);
      const { code, signal, stderr } = await node.box.run('env', [
        `NODE_OPTIONS=--max-old-space-size=${HEAP_MB}`,
        BINARY,
        `--config-dir=${node.configDir}`,
        `--termination-log=${node.dir}/none`,
        '--metrics-bind-address=',
        '--once',
        '--log-format=text',
      ]);
      assert.deepEqual([code, signal], [3, null], stderr.slice(0, 1000));
      assert.match(stderr, new RegExp(` ERROR ${place}error: `));
    });
  }
});

describe('wrong usage ends the agent with exit code 2 and leaves the kernel alone:', () => {
  for (const argument of ['--cidr-limit=1001', 'frobnicate']) {
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
