import assert from 'node:assert/strict';
import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { WITH_NETLINK } from '../lab/netlink.ts';
import { createNode, type NodeLab } from './support.ts';

/** Of two owners; the second makes an exception from what the first lists. */
const CONFIG_FILES = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.0.0.0/14]\n',
  'ip-masq-operator': 'masqueradeCIDRs: [10.1.0.0/16]\nmasqLinkLocal: true\n',
};

let node: NodeLab;

before(async () => {
  node = await createNode();
});

after(() => node[Symbol.asyncDispose]());

beforeEach(() => writeFiles(CONFIG_FILES));

describe('render prints', () => {
  it('the rules of this machine: with its address in the range, with the lowest of several, or with none', async () => {
    await writeFiles({
      'ip-masq-x': 'masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.0/24}]\n',
    });
    const rendered = async (format: string) => {
      const { code, stdout, stderr } = await node.agent('render', `--format=${format}`);
      assert.equal(code, 0);
      return { sources: [...stdout.matchAll(/(?:--to-source|snat to) (\S+)/g)].map(([, to]) => to), stderr };
    };
    const none = await rendered('iptables');
    assert.deepEqual(none.sources, []);
    assert.match(none.stderr, /note: ip-masq-x:1:23: .*no address in 198\.51\.100\.0\/24/);
    const ip = async (command: string) =>
      assert.equal((await node.box.run('ip', command.split(' '))).code, 0, command);
    await ip('link add uplink type veth peer name router');
    await ip('address add 198.51.100.17/24 dev uplink');
    await ip('link set uplink up');
    await ip('link set router up');
    for (const format of ['iptables', 'nftables'])
      assert.deepEqual(await rendered(format), { sources: ['198.51.100.17'], stderr: '' });
    // A secondary address, then one of another network.
    await ip('address add 198.51.100.3/24 dev uplink');
    if (WITH_NETLINK)
      assert.deepEqual(await rendered('nftables'), { sources: ['198.51.100.17'], stderr: '' });
    await ip('address delete 198.51.100.3/24 dev uplink');
    await ip('address add 198.51.100.7/25 dev uplink');
    const several = await rendered('nftables');
    assert.deepEqual(several.sources, ['198.51.100.7']);
    assert.match(
      several.stderr,
      /several addresses in 198\.51\.100\.0\/24.*: 198\.51\.100\.7, 198\.51\.100\.17;/,
    );
    await ip('link delete uplink');
  });
});

describe('render writes a file', () => {
  it('never one that would be a config file, also through a link', async () => {
    const link = join(node.dir, 'link');
    await symlink(node.configDir, link);
    for (const config of [[], ['--config-dir=x', '-f', node.configDir]]) {
      const { code, stderr } = await node.agent('render', ...config, `--output-file=${link}/ip-masq-agent`);
      assert.equal(code, 2);
      assert.match(stderr, /would be a config file of the next sync/);
    }
    assert.deepEqual((await readdir(node.configDir)).toSorted(), Object.keys(CONFIG_FILES));
  });
});

/** Makes the config directory hold just these. */
async function writeFiles(texts: Readonly<Record<string, string>>): Promise<void> {
  await rm(node.configDir, { recursive: true, force: true });
  await mkdir(node.configDir);
  for (const [name, text] of Object.entries(texts)) await writeFile(join(node.configDir, name), text);
}
