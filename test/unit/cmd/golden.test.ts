import assert from 'node:assert/strict';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { after, describe, it, mock } from 'node:test';
import { fileURLToPath } from 'node:url';
import { commandNamed } from '../../../cmd/ip-masq-agent/command.ts';
import { COMMANDS } from '../../../cmd/ip-masq-agent/commands.ts';
import { printFailure } from '../../../cmd/ip-masq-agent/failure.ts';
import { parseArgs } from '../../../cmd/ip-masq-agent/parse-args.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

const PAGES = fileURLToPath(new URL('../../golden/', import.meta.url));

/** With UPDATE_GOLDEN=1 the pages are written anew instead. */
const UPDATE = process.env['UPDATE_GOLDEN'] === '1';

/** The commands that neither read nor change this machine's rules. */
const KERNEL_FREE: readonly string[] = ['check', 'explain', 'render'];

/** A fenced block: the text of a file, whose path is behind the language, or a console. */
const BLOCK = /^```(\w+)(?: (\S+))?\n(.*?)^```$/gms;

/** What the commands print, as test/golden/README.md says. */
for (const page of globSync('*.md', { cwd: PAGES, exclude: ['README.md'] }).sort()) {
  describe(page, () => {
    const [head = '', ...cases] = readFileSync(join(PAGES, page), 'utf8').split(/^(?=## )/m);
    const played = [head];
    for (const text of cases)
      it(/^## (.*)$/m.exec(text)?.[1] ?? text, async () => {
        const actual = await play(head, text);
        played.push(actual);
        if (!UPDATE) assert.equal(actual, text);
      });
    after(() => UPDATE && writeFileSync(join(PAGES, page), played.join('')));
  });
}

/** The case with what its commands print now, in a directory with the files of the page's head. */
async function play(head: string, text: string): Promise<string> {
  await using directory = await temporaryDirectory();
  const before = process.cwd();
  process.chdir(directory.path);
  try {
    await mkdir('config');
    await blocks(head);
    return await blocks(text);
  } finally {
    process.chdir(before);
  }
}

/** Writes the files and runs the commands of the blocks, in their order. */
async function blocks(text: string): Promise<string> {
  let played = '';
  let end = 0;
  for (const { 0: block, 1: language, 2: path, 3: content = '', index } of text.matchAll(BLOCK)) {
    played += text.slice(end, index);
    end = index + block.length;
    if (path === undefined) {
      assert.equal(language, 'console');
      const commands = content.match(/^\$ .*$/gm) ?? [];
      played += '```console\n';
      for (const command of commands) played += `${command}\n${await run(command.slice(2))}`;
      played += '```';
    } else {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, content);
      played += block;
    }
  }
  return played + text.slice(end);
}

/** What a command prints: standard output, then each line of standard error behind `2>`, then an exit code that is not 0. */
async function run(line: string): Promise<string> {
  const [, command = '', stdin] = /^(.*?)(?: < (\S+))?$/.exec(line) ?? [];
  const [program, ...words] = (command.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", ''));
  if (program === 'cat') return await readFile(words.join(), 'utf8');
  assert.equal(program, 'ip-masq-agent');
  assert.ok(KERNEL_FREE.includes(words[0] ?? '') && !words.includes('--live'), line);
  let stdout = '';
  let stderr = '';
  const stream = { on: () => stream, write: (text: string) => (stdout += text) };
  const input = stdin === undefined ? Buffer.alloc(0) : await readFile(stdin);
  const mocks = [
    mock.getter(process, 'stdout', () => stream as never),
    mock.getter(process, 'stdin', () => Readable.from(input.length === 0 ? [] : [input]) as never),
    mock.method(console, 'error', (text: string) => {
      stderr += `2> ${text.replaceAll('\n', '\n2> ')}\n`;
    }),
  ];
  try {
    const code = await exitCode(['--config-dir=config', ...words]);
    assert.doesNotMatch(stderr, /bug in ip-masq-agent/);
    return `${stdout}${stderr}${code === 0 ? '' : `[exit code ${code}]\n`}`;
  } finally {
    for (const one of mocks) one.mock.restore();
  }
}

/** As the main function of the agent has it. */
async function exitCode(argv: readonly string[]): Promise<number> {
  try {
    const args = parseArgs(argv);
    return await commandNamed(args.command, COMMANDS).run(args);
  } catch (error) {
    return await printFailure(error, { terminates: false });
  }
}
