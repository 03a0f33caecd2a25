import assert from 'node:assert/strict';
import fs from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { mock } from 'node:test';
import { commandNamed } from '../../../cmd/ip-masq-agent/command.ts';
import { COMMANDS } from '../../../cmd/ip-masq-agent/commands.ts';
import { printFailure } from '../../../cmd/ip-masq-agent/failure.ts';
import { parseArgs } from '../../../cmd/ip-masq-agent/parse-args.ts';
import { finishOutput, STDOUT } from '../../../cmd/ip-masq-agent/print.ts';
import { playPages, printed, type Stage } from '../../lab/golden.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

/** The commands that neither read nor change this machine's rules. */
const KERNEL_FREE: readonly string[] = ['check', 'explain', 'render'];

playPages('files', async (): Promise<Stage> => {
  const directory = await temporaryDirectory();
  const before = process.cwd();
  process.chdir(directory.path);
  await mkdir('config');
  return {
    write: async (path, content) => {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, content);
    },
    run,
    [Symbol.asyncDispose]: () => {
      process.chdir(before);
      return directory[Symbol.asyncDispose]();
    },
  };
});

/** Runs a command in this process. */
async function run(line: string): Promise<string> {
  const [, command = '', stdin] = /^(.*?)(?: < (\S+))?$/.exec(line) ?? [];
  const [program, ...words] = (command.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", ''));
  if (program === 'cat') return await readFile(words.join(), 'utf8');
  assert.equal(program, 'ip-masq-agent');
  assert.ok(KERNEL_FREE.includes(words[0] ?? '') && !words.includes('--live'), line);
  let stdout = '';
  let stderr = '';
  const input = stdin === undefined ? [] : [await readFile(stdin)];
  const mocks = [
    mock.getter(process, 'stdin', () => Readable.from(input) as never),
    mock.method(
      fs,
      'write',
      (descriptor: number, bytes: Buffer, done: (error: null, count: number) => void) => {
        if (descriptor === STDOUT) stdout += bytes;
        else stderr += bytes;
        done(null, bytes.length);
      },
    ),
  ];
  syncBuiltinESMExports();
  try {
    const code = await finishOutput(await exitCode(['--config-dir=config', ...words]));
    assert.doesNotMatch(stderr, /bug in ip-masq-agent/);
    return printed(code, stdout, stderr);
  } finally {
    for (const one of mocks) one.mock.restore();
    syncBuiltinESMExports();
  }
}

/** As the main function of the agent has it. */
async function exitCode(argv: readonly string[]): Promise<number> {
  try {
    const args = parseArgs(argv);
    return await commandNamed(args.command, COMMANDS).run({ ...args, parse: parseArgs });
  } catch (error) {
    return await printFailure(error, { terminates: false });
  }
}
