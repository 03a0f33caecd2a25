import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { assertSameText } from '../lab/same-text.ts';
import { BINARY, besideAgent, createNode, type NodeLab } from './support.ts';

const file = (path: string) => new URL(`../../${path}`, import.meta.url);

/** The pages with such blocks. What one leaves on the node is there for the next. */
const PAGES = ['README.md', 'docs/terminal.txt', 'docs/how-it-works.md'].map(file);

/** What commands print, each behind a dollar sign: a fenced block of a page, or all of a text. */
const CONSOLE = /(?<=^```console\n).*?(?=^```$)|^(?=\$ ).*(?![\s\S])/gms;

/** That of the image, which Debian 13 has. The machine may have another one. */
const IPTABLES = '1.8.11';

/** With UPDATE_GOLDEN=1 the pages are written anew instead. */
const UPDATE = process.env['UPDATE_GOLDEN'] === '1';

const STALE = 'is not what commands print: UPDATE_GOLDEN=1 node --test test/e2e/docs.test.ts writes it anew';

/** What happens on the node before a command, in the order of the pages. */
const BEFORE: Readonly<Record<string, (node: NodeLab) => Promise<unknown>>> = {
  'list table ip ip-masq-agent': (node) => node.agent('--once', '--backend=nftables'),
  doctor: async (node) => {
    await node.agent('--once');
    await node.iptables('-A', 'POSTROUTING', '-s', '172.17.0.0/16', '!', '-o', 'docker0', '-j', 'MASQUERADE');
  },
};

describe('the documentation', () => {
  it('shows what the commands print', async () => {
    await using node = await documentedNode();
    for (const url of PAGES) {
      const text = await readFile(url, 'utf8');
      const shown = [...text.matchAll(CONSOLE)].map(([content]) => content);
      assert.ok(shown.length > 0);
      const printed: string[] = [];
      for (const content of shown) {
        const commands = content.split('\n').filter((line) => line.startsWith('$ '));
        const outputs: string[] = [];
        for (const command of commands) outputs.push(`${command}\n${await print(node, command)}`);
        printed.push(outputs.join(''));
      }
      if (UPDATE) {
        const next = printed.values();
        await writeFile(
          url,
          text.replace(CONSOLE, () => next.next().value ?? ''),
        );
      } else {
        assertSameText(printed.map(alike).join(''), shown.map(alike).join(''), `${url.pathname} ${STALE}`);
      }
    }
  });
});

/** Runs a command as the pages have it, in the directory of its files. */
async function print(node: NodeLab, command: string): Promise<string> {
  const [name, ...words] = command.slice('$ '.length).split(' ');
  await BEFORE[words.join(' ')]?.(node);
  if (name === 'nft') return (await node.box.run(name, words)).stdout;
  assert.equal(name, 'ip-masq-agent');
  const args = ['-C', node.dir, BINARY, ...words, ...(words.includes('-f') ? [] : ['--config-dir=config'])];
  const run = () => node.box.run('env', args);
  const beside = { doctor: besideAgent, status: besideRealAgent }[words[0] ?? ''];
  const { stdout, stderr } = await (beside === undefined ? run() : beside(node, run));
  return (stderr + stdout)
    .replace('read: 2 config files in config;', 'read: 2 config files in /etc/config;')
    .replace(/(?<=\biptables )\d[\d.]*(?= \()/g, IPTABLES);
}

async function besideRealAgent<Result>(node: NodeLab, work: () => Promise<Result>): Promise<Result> {
  const agent = node.start('--v=3');
  await agent.logged(/"reason":"start"/);
  const result = await work();
  await agent.stop();
  return result;
}

/** A node with the two config files of the page on configuration, and the list of README. */
async function documentedNode(): Promise<NodeLab> {
  const node = await createNode();
  await node.box.run('tee', ['/proc/sys/net/ipv4/ip_forward'], { input: '1' });
  const [cloud, operator] = await yamlBlocks(file('docs/configuration.md'));
  assert.ok(cloud && operator);
  const [list = ''] = await yamlBlocks(file('README.md'));
  await writeFile(join(node.dir, 'my-list.yaml'), list);
  await writeFile(join(node.configDir, 'ip-masq-cloud'), cloud);
  await writeFile(join(node.configDir, 'ip-masq-operator'), operator);
  return node;
}

async function yamlBlocks(url: URL): Promise<readonly string[]> {
  const text = await readFile(url, 'utf8');
  return [...text.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, content = '']) => content);
}

/** Versions are those of the machine; the clean-up also tells of modes that are in use here and not there. */
function alike(text: string): string {
  return text
    .replace(/\b\d+(?:\.\d+)+(?= \((?:nft|nf_tables|legacy)\))/g, 'X')
    .replace(/^( {2}nft): .*$/m, '$1: X')
    .replace(/^(ip-masq-agent) \S+(?=: the rules are)/m, '$1 X')
    .replace(/\b\d{4}-\d\d-\d\dT[\d:]+Z/g, 'X')
    .replace(/^(ip-masq-agent) \S+ \(commit \w+, Node\.js v[\d.]+\)$/m, '$1 X')
    .replace(/^IPv[46], iptables X \(legacy\): no rules of the agent\n/gm, '')
    .replace(/nftables \d[\d.]*/g, 'nftables X')
    .replace(/,\n\t+ +/g, ', ')
    .replace(/(?<=; iptables X \(\w+\)): [^;]*/, '')
    .replace('; iptables (legacy) nat POSTROUTING', '');
}
