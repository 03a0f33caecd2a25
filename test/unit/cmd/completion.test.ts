import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { CHECK_FLAGS, EXPLAIN_FLAGS } from '../../../cmd/ip-masq-agent/command-flags.ts';
import { COMMANDS } from '../../../cmd/ip-masq-agent/commands.ts';
import { completionScript } from '../../../cmd/ip-masq-agent/completion.ts';
import type { Flag } from '../../../cmd/ip-masq-agent/flag-table.ts';
import { FLAGS } from '../../../cmd/ip-masq-agent/flags.ts';
import { choicesOf } from '../../lab/choices.ts';
import { temporaryDirectory } from '../../lab/volume.ts';

const COMMON = [...Object.keys(FLAGS), 'help', 'version'].map((name) => `--${name}`);
const CHECK_FORMATS = choicesOf(CHECK_FLAGS.output);

/** The words as bash splits them, the last one as far as it is typed, and everything that completes it. */
const CASES: readonly (readonly [words: readonly string[], replies: readonly string[]])[] = [
  [[''], Object.keys(COMMANDS)],
  [['ch'], ['check']],
  [['--enable-ipv6', 'di'], ['diff']],
  [['help', 'do'], ['doctor']],
  [
    ['completion', ''],
    ['bash', 'zsh'],
  ],
  [['--ma'], ['--masq-chain']],
  [
    ['doctor', '--'],
    ['--output', ...COMMON],
  ],
  [
    ['explain', '-'],
    ['-f', '--filename', '-R', '--recursive', '--from', '--live', '-o', '--output', ...COMMON],
  ],
  [['explain', '--li'], ['--live']],
  [['diff', '--li'], []],
  [['--iptables-mode', 'l'], ['legacy']],
  [['render', '--format', 'w'], ['win-bridge']],
  [['explain', '10'], []],
  [['explain', '-o', ''], choicesOf(EXPLAIN_FLAGS.output)],
  [['diff', '-f', './two'], ['./two words.yaml']],
  [['check', './two'], ['./two words.yaml']],
  [['--config-dir', './two'], ['./two words.yaml']],
  // To bash an equals sign is a word of its own.
  [['check', '--output', '=', 'sa'], ['sarif']],
  [['check', '--output', '='], CHECK_FORMATS],
];

/** Each flag that takes only certain words, and these. */
const CHOICES = Object.entries({ ...COMMANDS, run: { own: FLAGS } }).flatMap(([command, { own }]) =>
  Object.entries<Flag<unknown>>(own)
    .filter(([, { kind }]) => kind.choices !== undefined)
    .map(([name, flag]) => [[command, `--${name}`, ''], choicesOf(flag)] as const),
);

/** Does what bash does at the tab key: calls the function that the script registers for the command; see bash(1). */
const TAB = `source <(cat)
COMP_WORDS=(ip-masq-agent "$@") COMP_CWORD=$#
registered=$(complete -p ip-masq-agent)
registered=\${registered##*-F }
"\${registered%% *}"
printf '%s\\n' "\${COMPREPLY[@]}"`;

describe('completion in bash', () => {
  for (const [words, replies] of [...CASES, ...CHOICES]) {
    it(`of "${words.join(' ')}" is ${replies.join(' ') || 'nothing'}`, async () => {
      await using directory = await temporaryDirectory();
      await writeFile(join(directory.path, 'two words.yaml'), '');
      const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', TAB, 'bash', ...words], {
        input: completionScript('bash', COMMANDS),
        cwd: directory.path,
        encoding: 'utf8',
      });
      assert.equal(stderr, '');
      const found = stdout.split('\n').filter((line) => line !== '');
      assert.deepEqual(found.toSorted(), replies.toSorted());
    });
  }
});
