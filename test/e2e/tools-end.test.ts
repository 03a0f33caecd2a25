import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { BINARY, createNode, eventually, REFUSE } from './support.ts';

/** A tool that tells its version, and otherwise starts another program and waits for it for ever. */
const STUCK = `#!/bin/sh
case "$*" in *--version*) echo 'iptables v1.8.9 (nf_tables)'; exit ;; esac
sleep 600 & echo $$ $! >> "\${0%/*}/pids"; wait
`;

const ENDS = [
  ['run', 'SIGTERM', { code: 0, signal: null }],
  ['run', 'SIGINT', { code: 0, signal: null }],
  ['diff', 'SIGINT', { code: null, signal: 'SIGINT' }],
  ['cleanup', 'SIGTERM', { code: null, signal: 'SIGTERM' }],
] as const;

describe('a tool that runs when the process ends', () => {
  for (const [command, signal, end] of ENDS) {
    it(`ends with it, and so does what it has started: ${command}, ${signal}`, async () => {
      await using node = await createNode();
      const bin = join(node.dir, 'bin');
      await mkdir(bin);
      await node.run('iptables-nft', '-t', 'nat', '-N', 'IP-MASQ-AGENT');
      for (const name of ['iptables-nft', 'iptables-nft-restore'])
        await writeFile(join(bin, name), STUCK, { mode: 0o755 });
      const flags = ['--iptables-mode=nft', `--config-dir=${node.configDir}`];
      const words = [`PATH=${bin}:/usr/bin:/bin`, BINARY, command, ...flags, '--metrics-bind-address='];
      const agent = node.box.spawn('env', words, { stdio: 'ignore' });
      const ended = once(agent, 'close');
      const pids = () => readFile(join(bin, 'pids'), 'utf8').catch(() => '');
      await eventually(
        async () => /^\d+ \d+$/m.test(await pids()),
        () => 'a tool that runs',
      );
      agent.kill(signal);
      assert.deepEqual(await ended, [end.code, end.signal]);
      const processes = (await pids()).split(/\s+/).filter((word) => word !== '');
      await eventually(
        () => processes.every((pid) => !isRunning(pid)),
        () => `the end of ${processes.join()}`,
      );
    });
  }
});

it('ends with its exit code on a disk that fails', async () => {
  await using node = await createNode();
  const EIO = '5';
  const flags = ['--once', `--config-dir=${node.configDir}`, '--metrics-bind-address='];
  const { code, stderr } = await node.box.run('perl', [REFUSE, 'fsync', EIO, BINARY, 'run', ...flags]);
  assert.equal(code, 0, stderr);
});

function isRunning(pid: string): boolean {
  // A process that nobody has waited for still has its folder, but no command line.
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
  } catch {
    return false;
  }
}
