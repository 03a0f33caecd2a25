import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { COMMANDS } from '../../../cmd/ip-masq-agent/commands.ts';
import { flagValues } from '../../../cmd/ip-masq-agent/flag-table.ts';
import { FLAGS } from '../../../cmd/ip-masq-agent/flags.ts';
import { commandHelp, helpText } from '../../../cmd/ip-masq-agent/help.ts';
import { parseArgs } from '../../../cmd/ip-masq-agent/parse-args.ts';

describe('the documentation', () => {
  it('of the command line names every flag and no other', () => {
    const named = [...helpText(COMMANDS).matchAll(/^ {2}--([a-z0-9-]+)/gm)].map(([, name]) => name);
    assert.deepEqual(named, [...Object.keys(FLAGS), 'version', 'help']);
  });

  for (const [name, command] of Object.entries(COMMANDS)) {
    it(`of ${name} has its flags, and one to three examples that the parser takes`, () => {
      const text = commandHelp(name, command);
      const named = [...text.matchAll(/^ {2}(?:-\w, )?--([a-z0-9-]+)/gm)].map(([, flag]) => flag);
      assert.deepEqual(named, [
        ...Object.keys(command.own),
        ...Object.keys(FLAGS).filter((flag) => command.uses?.some((use) => use === flag)),
      ]);
      const lines = Object.keys(command.examples);
      assert.ok([1, 2, 3].includes(lines.length));
      for (const line of lines) {
        assert.ok(text.includes(`  ip-masq-agent ${line}\n`));
        const words = line.replace(/ >.*/, '').split(' ');
        const parsed = parseArgs(words);
        assert.equal(parsed.command, name);
        assert.doesNotThrow(() => flagValues({ ...FLAGS, ...command.own }, parsed.flagTexts));
      }
    });
  }

  it('fits a terminal', () => {
    const texts = [
      helpText(COMMANDS),
      ...Object.entries(COMMANDS).map(([name, command]) => commandHelp(name, command)),
    ];
    const long = texts.flatMap((text) => text.split('\n')).filter((line) => line.length > 100);
    assert.deepEqual(long, []);
  });
});
