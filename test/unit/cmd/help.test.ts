import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { generatedSections, withSections } from '../../../build/docs.ts';
import { FLAGS } from '../../../cmd/ip-masq-agent/flags.ts';
import { helpText } from '../../../cmd/ip-masq-agent/help.ts';

describe('the documentation', () => {
  it('of the command line names every flag and no other', () => {
    const named = [...helpText().matchAll(/^ {2}--([a-z0-9-]+)/gm)].map(([, name]) => name);
    assert.deepEqual(named, [...Object.keys(FLAGS), 'version', 'help']);
  });

  it('fits a terminal', () => {
    assert.deepEqual(
      helpText()
        .split('\n')
        .filter((line) => line.length > 100),
      [],
    );
  });

  it('in the README is what the code says; `node build/docs.ts` writes it anew', async () => {
    const readme = await readFile(new URL('../../../README.md', import.meta.url), 'utf8');
    for (const name of Object.keys(generatedSections()))
      assert.match(readme, new RegExp(`<!-- ${name}: generated`));
    assert.equal(withSections(readme), readme);
  });
});
