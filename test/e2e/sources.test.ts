import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { CHECK_FLAGS } from '../../cmd/ip-masq-agent/command-flags.ts';
import { choicesOf } from '../lab/choices.ts';
import { BINARY, createNode, type NodeLab } from './support.ts';

const manifest = (name: string, config: string) =>
  `apiVersion: v1\nkind: ConfigMap\ndata:\n  ${name}: |\n    ${config}\n`;

let node: NodeLab;
before(async () => {
  node = await createNode();
  await mkdir(join(node.dir, 'tree/deep'), { recursive: true });
  await writeFile(
    join(node.dir, 'm.yaml'),
    manifest('ip-masq-a', 'nonMasqueradeCIDRs: [10.1.0.0/16, 10.2.0.0/16]'),
  );
  await writeFile(join(node.dir, 'tree/deep/ip-masq-b'), 'masqueradeCIDRs: [10.1.1.0/24]\n');
  await writeFile(join(node.dir, 'bad.yaml'), manifest('ip-masq-c', 'nonMasqueradeCIDRs: [10.0.0.1/8]'));
});
after(() => node[Symbol.asyncDispose]());

/** Runs a command in the scratch directory of the node. */
function run(command: string, input = '', configDir = 'no-such-directory') {
  const words = [BINARY, ...command.split(' '), `--config-dir=${configDir}`];
  return node.box.run('env', ['-C', node.dir, ...words], { input });
}

describe('-f is read instead of --config-dir', () => {
  for (const [command, code, says] of [
    [
      'explain -f m.yaml -f tree -R 10.1.1.1',
      0,
      /^10\.1\.1\.1 is masqueraded: .* tree\/deep\/ip-masq-b:1:19/,
    ],
    ['explain --filename=m.yaml 10.1.1.1', 0, /^10\.1\.1\.1 is not masqueraded: .* m\.yaml:5:26/],
    ['diff -f m.yaml -f tree -R', 4, /-d 10\.1\.1\.0\/24 .*# tree\/deep\/ip-masq-b:1:19$/m],
    ['render -f m.yaml -f tree -R --format=config', 0, /- 10\.1\.1\.0\/24 # tree\/deep\/ip-masq-b:1:19$/m],
    ['check m.yaml -f tree -R', 0, /^2 sources, 0 errors/m],
  ] as const) {
    it(`by ${command}`, async () => {
      const result = await run(command);
      assert.equal(result.code, code, result.stderr);
      assert.match(result.stdout, says);
    });
  }

  it('by each of them from standard input', async () => {
    for (const command of ['explain -f - 10.3.0.0', 'diff -f -', 'render -f -', 'check -f -']) {
      const { stdout } = await run(command, 'nonMasqueradeCIDRs: [10.3.0.0/16]\n');
      assert.match(stdout, /10\.3\.0\.0\/16/, command);
    }
  });

  it('and an error in it stands with its line in the manifest', async () => {
    const { code, stderr } = await run('explain -f bad.yaml 8.8.8.8');
    assert.equal(code, 3);
    assert.match(
      stderr,
      /^bad\.yaml:5:26: error: .*\n 5 \| {5}nonMasqueradeCIDRs: \[10\.0\.0\.1\/8\]\n.*\nip-masq-agent: 1 error/,
    );
  });

  for (const command of ['explain -f tree 10.1.1.1', 'diff -f tree', 'render -f tree', 'check tree'])
    it(`and ${command} ends with exit code 3, because tree holds only directories`, async () => {
      const { code, stdout, stderr } = await run(command);
      assert.equal(code, 3);
      assert.match(stdout + stderr, /nothing was checked; use -R/);
    });

  it('and -R without it is wrong usage', async () => {
    for (const command of ['explain -R 10.1.1.1', 'diff -R', 'render -R', 'check -R'])
      assert.equal((await run(command)).code, 2, command);
  });
});

describe('that the defaults apply, because there is no source, is said first', () => {
  const NOTE = 'no source in config: the defaults apply\n';

  for (const command of ['explain 10.1.1.1', 'diff', 'check'])
    it(`in the output of ${command}, which is for people`, async () => {
      const { stdout, stderr } = await run(command, '', 'config');
      assert.equal(stdout.slice(0, NOTE.length), NOTE);
      assert.equal(stderr, '');
    });

  const forPrograms = choicesOf(CHECK_FLAGS.output).filter((format) => format !== 'text');
  const checks = forPrograms.map((format) => `check -o ${format}`);
  for (const command of ['explain -o json 10.1.1.1', 'render', ...checks])
    it(`on standard error beside the output of ${command}, which is for programs`, async () => {
      const { stdout, stderr } = await run(command, '', 'config');
      assert.doesNotMatch(stdout, /the defaults apply/);
      assert.equal(stderr, `ip-masq-agent: note: ${NOTE}`);
    });
});
