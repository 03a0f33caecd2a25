import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { COMMANDS } from '../../cmd/ip-masq-agent/commands.ts';
import { FLAGS } from '../../cmd/ip-masq-agent/flags.ts';
import { run } from '../lab/run.ts';
import { BINARY } from './support.ts';

const NAMES = Object.keys(COMMANDS);
const COMMON = [...Object.keys(FLAGS), 'help', 'version'].map((name) => `--${name}`);
const FIXTURE = fileURLToPath(new URL('fixtures/complete.bash', import.meta.url));
const ENV = { PATH: process.env['PATH'] ?? '', LC_ALL: 'C' };

/** Words as the shell has them, the last to be completed, and all that completes it. */
const CASES: readonly (readonly [words: readonly string[], replies: readonly string[]])[] = [
  [[''], NAMES],
  [['ch'], ['check']],
  [['--enable-ipv6', 'di'], ['diff']],
  [['help', 'do'], ['doctor']],
  [
    ['completion', ''],
    ['bash', 'zsh'],
  ],
  [['--ma'], ['--masq-chain']],
  [['diff', '--'], COMMON],
  [['explain', '--li'], ['--live']],
  [['diff', '--li'], []],
  [
    ['check', '--output', ''],
    ['text', 'json', 'github', 'sarif'],
  ],
  [
    ['doctor', '--output', ''],
    ['text', 'json'],
  ],
  [['--iptables-mode', 'l'], ['legacy']],
  [['render', '--format', 'w'], ['win-bridge']],
  [['explain', '10'], []],
  [['check', './two'], ['./two words.yaml']],
  [['--config-dir', './two'], ['./two words.yaml']],
];

describe('completion', () => {
  for (const [words, replies] of CASES) {
    it(`in bash of "${words.join(' ')}" is ${replies.join(' ') || 'nothing'}`, async () => {
      assert.deepEqual((await inBash(words)).toSorted(), replies.toSorted());
    });
  }

  for (const [words, replies] of [
    [['check', '--output', '=', 'sa'], ['sarif']],
    [
      ['check', '--output', '='],
      ['text', 'json', 'github', 'sarif'],
    ],
  ] as const) {
    it(`in bash of "${words.join('')}", where the equals sign is a word`, async () => {
      assert.deepEqual((await inBash(words)).toSorted(), replies.toSorted());
    });
  }

  for (const [line, completed] of [
    ['ip-masq-agent ch', 'ip-masq-agent check '],
    ['ip-masq-agent explain --li', 'ip-masq-agent explain --live '],
    ['ip-masq-agent check --output=sa', 'ip-masq-agent check --output=sarif '],
    ['ip-masq-agent --iptables-mode leg', 'ip-masq-agent --iptables-mode legacy '],
    ['ip-masq-agent check two', 'ip-masq-agent check two\\ words.yaml '],
  ] as const) {
    for (const way of ['sourced', 'autoloaded'] as const) {
      it(`in zsh, ${way}, makes "${line}" to "${completed}" at the tab key`, async () => {
        assert.equal(await inZsh(line, way), completed);
      });
    }
  }

  it('is for bash and zsh', async () => {
    const { code, stderr } = await run({ file: BINARY, args: ['completion', 'fish'] }, ENV);
    assert.deepEqual([code, stderr], [2, 'ip-masq-agent: completion is for bash or zsh\n']);
  });
});

async function scriptOf(shell: string): Promise<string> {
  const { code, stdout } = await run({ file: BINARY, args: ['completion', shell] }, ENV);
  assert.equal(code, 0);
  return stdout;
}

/** Calls the function that the script has announced for the command, as bash would. */
async function inBash(words: readonly string[]): Promise<readonly string[]> {
  return await inDirectory(async (dir) => {
    const script = join(dir, 'script');
    await writeFile(script, await scriptOf('bash'));
    // With --norc no start-up file of the machine has a say.
    const command = ['--norc', '-c', 'cd "$1"; shift; source "$@"', 'bash', dir, FIXTURE, script, ...words];
    const { code, stdout, stderr } = await run({ file: 'bash', args: command }, ENV);
    assert.deepEqual([code, stderr], [0, '']);
    return stdout.split('\n').filter((line) => line !== '');
  });
}

/** Types the line and the tab key into a real zsh on a terminal of its own, and returns what became of the line. */
async function inZsh(line: string, way: 'sourced' | 'autoloaded'): Promise<string> {
  return await inDirectory(async (dir) => {
    await writeFile(join(dir, '_ip-masq-agent'), await scriptOf('zsh'));
    const load =
      way === 'sourced'
        ? 'autoload -U compinit; compinit -u -D; source ./_ip-masq-agent'
        : `fpath=(${dir} $fpath); autoload -U compinit; compinit -u -D`;
    // At the end of the line the widget writes what is there to a file.
    await writeFile(
      join(dir, '.zshrc'),
      `cd ${dir}\n${load}\nfinish() { print -rn -- "$BUFFER" > done.tmp; mv done.tmp done; }\nzle -N finish\nbindkey '^X' finish\n`,
    );
    const program = `zmodload zsh/zpty
zpty inner env ZDOTDIR=${dir} HOME=${dir} TERM=dumb zsh -i
zpty -w -n inner ${JSON.stringify(`${line}`)}$'\\t'$'\\x18'
for ((i = 0; i < 1000; i++)); do [[ -e ${dir}/done ]] && break; zpty -r -t inner chunk; sleep 0.01; done
cat ${dir}/done`;
    const { stdout, stderr } = await run({ file: 'zsh', args: ['-f', '-c', program] }, ENV);
    assert.equal(stderr, '');
    return stdout;
  });
}

async function inDirectory<Result>(work: (dir: string) => Promise<Result>): Promise<Result> {
  const dir = await mkdtemp(join(tmpdir(), 'ip-masq-completion-'));
  try {
    await writeFile(join(dir, 'two words.yaml'), '');
    return await work(dir);
  } finally {
    await rm(dir, { recursive: true });
  }
}
