import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe } from 'node:test';
import { playPages, printed, type Stage } from '../lab/golden.ts';
import { BINARY, besideAgent, createNode } from './support.ts';

type Mode = 'nft' | 'legacy';

// A mode decides which tool reads and writes, not what is printed of it: each page meets both.
describe('what commands print on a node', () =>
  playPages('kernel', (number) => openStage(number % 2 === 0 ? 'nft' : 'legacy')));

const otherThan = (mode: Mode) => (mode === 'nft' ? 'legacy' : 'nft');

/** The commands of the pages beside those of the machine. */
const PROGRAMS = {
  'ip-masq-agent': `exec ${BINARY} --config-dir=config "$@"`,
  alone: 'exec ip-masq-agent "$@"',
  once: `exec ${BINARY} --config-dir=config --once --metrics-bind-address= --termination-log=none "$@"`,
  'agent-once': 'exec once "$@" 2> log',
} as const;

/** A node for the pages of one mode of iptables. */
async function openStage(mode: Mode): Promise<Stage> {
  const node = await createNode();
  const write = async (path: string, content: string) => {
    await mkdir(join(node.dir, dirname(path)), { recursive: true });
    await writeFile(join(node.dir, path), content);
  };
  for (const [name, script] of Object.entries(PROGRAMS)) {
    await write(`bin/${name}`, `#!/bin/sh\n${script}\n`);
    await chmod(join(node.dir, 'bin', name), 0o755);
  }
  const settings = [
    `PATH=${node.dir}/bin:${node.box.env['PATH']}`,
    `MODE=${mode}`,
    `OTHER=${otherThan(mode)}`,
    `FLAGS=--enable-ipv6 --iptables-mode=${mode}`,
  ];
  return {
    write,
    run: async (line) => {
      const shell = ['bash', '--norc', '-o', 'pipefail', '-c', line];
      const work = () => node.box.run('env', ['-C', node.dir, ...settings, ...shell]);
      const { code, stdout, stderr } = await (/^(?!alone).*doctor/.test(line)
        ? besideAgent(node, work)
        : work());
      return alike(printed(code, stdout, stderr), mode);
    },
    [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
  };
}

/** Versions are those of the machine. */
function alike(text: string, mode: Mode): string {
  return text
    .replace(/\b(iptables|nftables) \d+(?:\.\d+)+/g, '$1 X')
    .replaceAll(`(${mode})`, '($MODE)')
    .replaceAll(`--iptables-mode=${mode}`, '--iptables-mode=$MODE')
    .replaceAll(`(${otherThan(mode)})`, '($OTHER)');
}
