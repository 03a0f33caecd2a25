import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { it } from 'node:test';
import { createFreshStates, type Setting, setAddresses } from '../e2e/fresh.ts';
import { eventually, SERVED } from '../e2e/support.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { becomes, configure, flagsOf, nodeWith, SETTINGS, syncOnce, writeAgentWith } from './support.ts';

const SETTING = SETTINGS['all rules'];
const FLAGS = flagsOf(SETTING);
/** Other ranges, and then one address less. */
const CHANGED: Setting = { ...SETTING, config: SETTING.config.replace('172.16.0.0/12', '172.16.0.0/13') };
const MOVED: Setting = { ...CHANGED, addresses: SETTING.addresses.slice(1) };

it('an agent with --backend=nftables starts no program, whatever changes', async () => {
  await using watched = await watchPrograms();
  await using fresh = await createFreshStates();
  await using node = await nodeWith(SETTING, watched.binary);
  const agent = node.start(...FLAGS, '--resync-interval=1h', SERVED);
  const follows = async (setting: Setting) => becomes(node, agent, await fresh.of(setting));
  await follows(SETTING);
  await node.nft('flush chain ip ip-masq-agent postrouting; delete table ip6 ip-masq-agent');
  await follows(SETTING);
  await configure(node, CHANGED);
  await follows(CHANGED);
  await setAddresses(node.box, MOVED.addresses);
  await follows(MOVED);
  agent.kill('SIGHUP');
  await eventually(
    async () => /flows_against_policy/.test(await node.metrics()),
    () => `the reading of connections; the agent has logged:\n${agent.log()}`,
  );
  await agent.stop();
  assert.deepEqual(await watched.started(), []);
});

it('--once with --backend=nftables starts no program, the first time and again', async () => {
  await using watched = await watchPrograms();
  await using node = await nodeWith(SETTING, watched.binary);
  for (const more of [[], [], ['--cleanup-on-exit']]) await syncOnce(node, ...FLAGS, ...more);
  assert.deepEqual(await watched.started(), []);
});

// That there are no rules of the agent in iptables, only iptables tells.
for (const command of ['diff', 'explain --live 10.2.3.4', 'render --format=nftables', 'cleanup']) {
  it(`${command} does not start nft`, async () => {
    await using watched = await watchPrograms();
    await using node = await nodeWith(SETTING, watched.binary);
    const { stdout } = await node.agent('render', '--format=nftables', ...FLAGS);
    await node.nft(stdout);
    const { code, stderr } = await node.agent(...command.split(' '), ...(command === 'cleanup' ? [] : FLAGS));
    assert.equal(code, 0, stderr);
    assert.deepEqual(
      (await watched.started()).filter((line) => line.startsWith('nft ')),
      [],
    );
  });
}

interface Watched extends AsyncDisposable {
  /** The agent, for which every program on PATH is one that writes down its start, then does its work. */
  readonly binary: string;
  /** The command lines of those that have started. */
  started(): Promise<readonly string[]>;
}

const PROGRAMS = ['/usr/sbin', '/usr/bin', '/sbin', '/bin'];

async function watchPrograms(): Promise<Watched> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const [bin, log, binary] = ['bin', 'started', 'agent'].map((name) => join(path, name));
  assert.ok(bin && log && binary);
  await mkdir(bin);
  await writeFile(log, '');
  const program = join(path, 'program');
  await writeFile(
    program,
    `#!/bin/sh
echo "\${0##*/} $*" >> ${log}
PATH=${PROGRAMS.join(':')} exec "\${0##*/}" "$@"
`,
  );
  await chmod(program, 0o755);
  await writeAgentWith(bin, binary);
  const names = await Promise.all(PROGRAMS.map((directory) => readdir(directory)));
  for (const name of new Set(names.flat())) await symlink(program, join(bin, name));
  const owned = stack.move();
  return {
    binary,
    started: async () => (await readFile(log, 'utf8')).split('\n').filter((line) => line !== ''),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
