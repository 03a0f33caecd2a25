import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, it } from 'node:test';
import { node, outDir, SOURCES } from './render-support.ts';
import { BINARY } from './support.ts';

/** The directory of the other config. */
let next: string;

beforeEach(async () => {
  next = join(outDir, 'next');
  await mkdir(next);
});

describe('render --diff-to', () => {
  it('says what happens to packets in both families, with exit code 4, and makes nothing', async () => {
    await writeNext({
      'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.0.0.0/14, "fd00::/8"]\nmasqLinkLocalIPv6: true\n',
      'ip-masq-operator': 'masqueradeCIDRs: [10.1.0.0/24]\n',
    });
    const before = await node.kernel();
    const { code, stdout, stderr } = await node.agent('render', `--diff-to=${next}`, '--enable-ipv6');
    assert.equal(await node.kernel(), before);
    assert.deepEqual([code, stderr], [4, '']);
    assert.deepEqual(stdout.split('\n'), [
      'IPv4: the verdict changes for 130,816 addresses',
      '  10.1.1.0-10.1.255.255: masqueraded → not masqueraded',
      '  169.254.0.0/16: masqueraded → not masqueraded',
      'IPv6: the verdict changes for more than 2^120 addresses',
      '  fd00::/8: masqueraded → not masqueraded',
      '  fe80::/10: not masqueraded → masqueraded',
      'Connections that exist keep their source address.',
      '',
    ]);
  });

  it('compares manifests, in directories of directories and on standard input, as check reads them', async () => {
    const manifest = (list: string) =>
      `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  ip-masq-a: |\n    nonMasqueradeCIDRs: [${list}]\n`;
    for (const [name, list] of [
      ['main', '10.0.0.0/8'],
      ['change', '10.0.0.0/8, 192.0.2.0/24'],
    ] as const) {
      await mkdir(join(next, name, 'deep'), { recursive: true });
      await writeFile(join(next, name, 'deep', 'masq.yaml'), manifest(list));
    }
    const compare = (...args: string[]) =>
      node.box.run(BINARY, ['render', '-R', `--config-dir=${node.configDir}`, ...args], {
        input: manifest('10.0.0.0/8'),
      });
    const { code, stdout, stderr } = await compare('-f', join(next, 'main'), `--diff-to=${next}/change`);
    assert.deepEqual([code, stderr], [4, '']);
    assert.match(stdout, /^IPv4: .* 256 addresses\n {2}192\.0\.2\.0\/24: masqueraded → not masqueraded\n/);
    assert.equal((await compare('-f', '-', `--diff-to=${next}/main`)).code, 0);
    assert.equal((await compare('-f', '-', '--diff-to=-')).code, 2);
    assert.match((await compare('--diff-to=-')).stdout, /^IPv4: the verdict changes/);
  });

  it('says that no verdict changes, with exit code 0', async () => {
    await writeNext({
      'ip-masq-x': 'nonMasqueradeCIDRs: [10.0.0.0/16, 10.2.0.0/15, 10.3.0.0/16]\nmasqLinkLocal: true\n',
    });
    const { code, stdout } = await node.agent('render', `--diff-to=${next}`);
    assert.deepEqual([code, stdout], [0, 'IPv4: no verdict changes\n']);
  });

  it('never compares with the defaults silently: a directory without a source is an error', async () => {
    const { code, stdout, stderr } = await node.agent('render', `--diff-to=${next}`);
    assert.deepEqual([code, stdout], [3, '']);
    assert.match(stderr, /no source in .*next/);
  });

  it('ends with exit code 3 and the errors of both, each with its directory', async () => {
    await writeNext({ ...SOURCES, 'ip-masq-cloud': 'nonMasqueradeCIDR: []\n' });
    const one = await node.agent('render', `--diff-to=${next}`);
    assert.deepEqual([one.code, one.stdout], [3, '']);
    assert.ok(one.stderr.startsWith(`${join(next, 'ip-masq-cloud')}:1:1: error: unknown key`), one.stderr);
    assert.match(one.stderr, /ip-masq-agent: 1 error in the config in \S*next\n$/);
    await writeFile(join(node.configDir, 'ip-masq-cloud'), 'nonMasqueradeCIDRs: 1\n');
    const both = await node.agent('render', `--diff-to=${next}`);
    assert.ok(both.stderr.startsWith(`${join(node.configDir, 'ip-masq-cloud')}:1:21: error: `), both.stderr);
    assert.ok(both.stderr.includes(`\n${join(next, 'ip-masq-cloud')}:1:1: error: unknown key`), both.stderr);
    assert.match(both.stderr, /ip-masq-agent: 2 errors in the config in \S*config and \S*next\n$/);
    assert.equal((await node.agent('render', `--diff-to=${next}/none`)).code, 3);
  });

  for (const flags of [
    ['--output-file=/tmp/none'],
    ['--output-file=/tmp/none', '--watch'],
    ['--format=win-bridge', '--input-file=/tmp/none'],
  ]) {
    it(`ends with exit code 2 if there is also ${flags.join(' ')}`, async () => {
      const { code, stderr } = await node.agent('render', `--diff-to=${next}`, ...flags);
      assert.equal(code, 2);
      assert.match(stderr, /--diff-to cannot be set with/);
    });
  }
});

async function writeNext(texts: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(texts)) await writeFile(join(next, name), text);
}
