import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BINARY, createNode, type NodeLab } from './support.ts';

const SCRIPT = '/usr/bin/script';

/** What each command has in colour. */
const COMMANDS = {
  'check m.yaml': '\x1b[31merror\x1b[39m: "10.0.0.1/8"',
  'explain 10.1.1.1': '10.1.1.1 is \x1b[32mnot masqueraded\x1b[39m',
  'explain 8.8.8.8': '8.8.8.8 is \x1b[33mmasqueraded\x1b[39m',
  'explain --live 8.8.8.8': 'kernel \x1b[31mDISAGREES\x1b[39m',
  'explain -f m.yaml 8.8.8.8': '\x1b[31merror\x1b[39m: "10.0.0.1/8"',
  diff: '\x1b[32m+ -A IP-MASQ-AGENT',
  doctor: '\x1b[33mout-of-sync\x1b[39m (IPv4)',
  '--once --config-dir=bad': '\x1b[31mERROR\x1b[39m ip-masq-a:1:22',
} as const;

describe('on a terminal', { skip: !existsSync(SCRIPT) && 'script(1) is not installed' }, () => {
  let node: NodeLab;
  before(async () => {
    node = await createNode();
    const config = 'nonMasqueradeCIDRs: [10.0.0.1/8]';
    await node.box.run('mkdir', [join(node.dir, 'bad')]);
    await writeFile(join(node.dir, 'bad/ip-masq-a'), config);
    await writeFile(
      join(node.dir, 'm.yaml'),
      `apiVersion: v1\nkind: ConfigMap\ndata: {ip-masq-a: '${config}'}`,
    );
    await writeFile(join(node.configDir, 'ip-masq-a'), 'nonMasqueradeCIDRs: [10.1.0.0/16]');
  });
  after(() => node[Symbol.asyncDispose]());

  /** What a command prints on a terminal. */
  async function shown(command: string, ...env: readonly string[]): Promise<string> {
    const words = [BINARY, '--config-dir=config', '--termination-log=none', command].join(' ');
    const args = ['-C', node.dir, '-u', 'NO_COLOR', 'TERM=xterm', ...env, SCRIPT, '-qec', words, '/dev/null'];
    return (await node.box.run('env', args)).stdout;
  }

  for (const [command, coloured] of Object.entries(COMMANDS)) {
    it(`${command} has colours, but not with NO_COLOR`, async () => {
      assert.ok((await shown(command)).includes(coloured));
      assert.doesNotMatch(await shown(command, 'NO_COLOR=1'), /\x1b/);
    });
  }

  it('the log is text unless --log-format says otherwise, and elsewhere it is JSON', async () => {
    assert.match(await shown('--once'), /^\d\d:\d\d:\d\d\.\d{3} INFO {2}starting ip-masq-agent/);
    assert.match(await shown('--once --log-format=json'), /^\{"level":"info"/);
    assert.match((await node.agent('--once')).stderr, /^\{"level":"info"/);
    assert.match((await node.agent('--once', '--log-format=text')).stderr, /^\d\d:\d\d:\d\d\.\d{3} INFO {2}/);
  });
});
