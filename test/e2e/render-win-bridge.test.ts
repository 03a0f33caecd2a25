import assert from 'node:assert/strict';
import { chmod, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { node, outDir, SOURCES, writeSources } from './render-support.ts';

const NAT = (list: string) =>
  `{"name": "EndpointPolicy", "value": {"Type": "OutBoundNAT", "ExceptionList": ${list}}}`;
const CONF = (list: string) => `{
  "name": "l2bridge",
  "type": "win-bridge",
  "policies": [
    ${NAT(list)}
  ]
}
`;
const CONFLIST = (list: string) =>
  `\ufeff{"plugins": [{"type": "win-overlay", "policies": [${NAT(list)}]}, {"type": "other"}]}\r\n`;
const EXCEPTION_LIST = '["10.0.0.0/16", "10.2.0.0/15"]';

describe('render --format=win-bridge', () => {
  for (const [name, form] of [
    ['cni.conf', CONF],
    ['cni.conflist', CONFLIST],
  ] as const) {
    it(`changes the ExceptionList of a ${name.split('.')[1]} and nothing else, also in place`, async () => {
      const path = join(outDir, name);
      await writeFile(path, form('["1.2.3.0/24", "1.2.4.0/24"]'));
      const args = ['render', '--format=win-bridge', `--input-file=${path}`];
      assert.deepEqual(await node.agent(...args), {
        code: 0,
        signal: null,
        stdout: form(EXCEPTION_LIST),
        stderr: '',
      });
      await chmod(path, 0o600);
      assert.equal((await node.agent(...args, `--output-file=${path}`)).stderr, `${path}: written\n`);
      assert.equal(await readFile(path, 'utf8'), form(EXCEPTION_LIST));
      assert.equal((await stat(path)).mode & 0o777, 0o600);
      assert.equal((await node.agent(...args, `--output-file=${path}`)).stderr, `${path}: unchanged\n`);
    });
  }

  it('warns that Windows nodes do not know as which address packets leave', async () => {
    await writeSources({
      ...SOURCES,
      'ip-masq-x': 'masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.0/24}]\n',
    });
    const path = join(outDir, 'cni.conf');
    await writeFile(path, CONF('[]'));
    const args = ['render', '--format=win-bridge', `--input-file=${path}`];
    const { code, stdout, stderr } = await node.agent(...args);
    assert.deepEqual([code, stdout], [0, CONF(EXCEPTION_LIST)]);
    assert.match(stderr, /ip-masq-x:1:23: warning: .* do not know masqueradeAddresses/);
    const strict = await node.agent(...args, '--strict');
    assert.deepEqual([strict.code, strict.stdout], [3, '']);
  });

  it('says how much IPv6 it leaves out', async () => {
    await writeSources({ ...SOURCES, 'ip-masq-x': 'nonMasqueradeCIDRs: ["fd00::/8", "fc00::/8"]\n' });
    const path = join(outDir, 'cni.conf');
    await writeFile(path, CONF('[]'));
    const { code, stdout, stderr } = await node.agent(
      'render',
      '--enable-ipv6',
      '--format=win-bridge',
      `--input-file=${path}`,
    );
    assert.deepEqual(
      { code, stdout, stderr },
      {
        code: 0,
        stdout: CONF('["10.0.0.0/16","10.2.0.0/15"]').replace('","', '", "'),
        stderr: 'ip-masq-agent: note: IPv6 is left out, because an ExceptionList is IPv4 only: 2 CIDRs\n',
      },
    );
  });

  for (const [what, text, says] of [
    [
      'is missing',
      undefined,
      /cni\.conf: error: cannot be read: ENOENT.*; set --input-file to the CNI config/,
    ],
    ['is no JSON', '{\n  "type": ,\n}', /cni\.conf:2:11: error: is not valid JSON/],
    ['is no text', Buffer.from([0xff, 0xfe]), /cni\.conf:1:1: error: /],
    [
      'has no OutBoundNAT policy',
      '{"type": "win-bridge"}',
      /cni\.conf:1:1: error: has no OutBoundNAT policy.*; add \{"name": .*\} to the list "policies" of/,
    ],
  ] as const) {
    it(`ends with exit code 3 if the CNI config ${what}`, async () => {
      const path = join(outDir, 'cni.conf');
      if (text !== undefined) await writeFile(path, text);
      const { code, stdout, stderr } = await node.agent(
        'render',
        '--format=win-bridge',
        `--input-file=${path}`,
      );
      assert.deepEqual({ code, stdout }, { code: 3, stdout: '' });
      assert.match(stderr, says);
    });
  }
});
