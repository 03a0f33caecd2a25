import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { BINARY, createNode, type NodeLab } from './support.ts';

interface BadConfig {
  readonly what: string;
  /** The text of the one config file `ip-masq-x`, or what makes the config directory what it is. */
  readonly config: string | Buffer | ((node: NodeLab) => Promise<unknown>);
  /** Where the log finds it. */
  readonly place: string;
}

/** Megabytes for values of the program: with what Node takes beside, it fits in the memory limit of the manifest. */
const HEAP_MB = 24;

/** Texts that must not stop the agent, which reads the config files of others too. */
const HOSTILE: readonly BadConfig[] = [
  {
    what: 'empty items',
    config: `nonMasqueradeCIDRs:\n${'-\n'.repeat(500_000)}`,
    place: 'ip-masq-x:8001:1: ',
  },
  { what: 'one key again and again', config: 'a: 1\n'.repeat(200_000), place: 'ip-masq-x:8001:2: ' },
  {
    what: 'blank lines before a mistake',
    config: `a:${'\n'.repeat(1_000_000)}@`,
    place: 'ip-masq-x:100001:1: ',
  },
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
