import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { WITH_NETLINK } from '../lab/netlink.ts';
import { BINARY, createNode, type NodeLab } from './support.ts';

/** Of two owners; the second makes an exception from what the first lists. */
const CONFIG_FILES = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.0.0.0/14]\n',
  'ip-masq-operator': 'masqueradeCIDRs: [10.1.0.0/16]\nmasqLinkLocal: true\n',
};

let node: NodeLab;
let outDir: string;
let out: string;

before(async () => {
  node = await createNode();
  outDir = join(node.dir, 'out');
  out = join(outDir, 'ip-masq-agent');
});

after(() => node[Symbol.asyncDispose]());

beforeEach(async () => {
  await writeFiles(CONFIG_FILES);
  await rm(outDir, { recursive: true, force: true });
  await mkdir(outDir);
});

describe('render prints', () => {
  it('that more entries than older agents take are there', async () => {
    const list = Array.from({ length: 65 }, (_, index) => `10.${2 * index}.0.0/16`);
    await writeFiles({ 'ip-masq-x': `cidrLimit: 65\nnonMasqueradeCIDRs: [${list}]\n` });
    const { code, stdout, stderr } = await node.agent('render', '--format=config');
    assert.equal(code, 0);
    assert.equal(stderr, 'ip-masq-agent: note: 65 nonMasqueradeCIDRs: older agents accept at most 64\n');
    assert.match(stdout, /\ncidrLimit: 65\n$/);
  });

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

  it('all of it to a reader that is slower, however much it is', async () => {
    const exceptions = Array.from({ length: 60 }, (_, index) => `"fd00:${index + 1}::1/128"`);
    await writeFiles({
      'ip-masq-x': `nonMasqueradeCIDRs: ["fd00::/8"]\nmasqueradeCIDRs: [${exceptions}]\n`,
    });
    await node.agent('render', '--format=config', '--flatten', '--enable-ipv6', `--output-file=${out}`);
    const expected = await readFile(out, 'utf8');
    assert.ok(expected.length > 3 * 65_536);
    const child = node.box.spawn(
      BINARY,
      ['render', '--format=config', '--flatten', '--enable-ipv6', `--config-dir=${node.configDir}`],
      { stdio: ['ignore', 'pipe', 'ignore'] },
    );
    await delay(500);
    assert.equal(child.stdout && (await text(child.stdout)), expected);
  });
});

describe('render writes a file', () => {
  it('in place, with the mode that it had', async () => {
    const nat = { name: 'EndpointPolicy', value: { Type: 'OutBoundNAT', ExceptionList: [] } };
    await writeFile(out, `\ufeff${JSON.stringify({ type: 'win-bridge', policies: [nat] })}\r\n`, {
      mode: 0o600,
    });
    const args = ['--format=win-bridge', `--input-file=${out}`, `--output-file=${out}`];
    assert.equal((await node.agent('render', ...args)).stderr, `${out}: written\n`);
    assert.match(
      await readFile(out, 'utf8'),
      /^\ufeff\{.*\["10\.0\.0\.0\/16", ?"10\.2\.0\.0\/15"\].*\}\r\n$/,
    );
    assert.equal((await stat(out)).mode & 0o777, 0o600);
  });

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
