import assert from 'node:assert/strict';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

/** Where the blocks of a case are played. */
export interface Stage extends AsyncDisposable {
  write(path: string, content: string): Promise<void>;
  /** What the command of that line prints; see `printed`. */
  run(line: string): Promise<string>;
}

/** With UPDATE_GOLDEN=1 the pages are written anew instead. */
const UPDATE = process.env['UPDATE_GOLDEN'] === '1';

/** A fenced block: the text of a file, whose path is behind the language, or a console. */
const BLOCK = /^```(\w+)(?: (\S+))?\n(.*?)^```$/gms;

/**
 * Plays each case of the pages in a folder, as test/golden/README.md says.
 *
 * @param open makes the stage of the case with this number in its page
 */
export function playPages(folder: string, open: (number: number) => Promise<Stage>): void {
  const dir = fileURLToPath(new URL(`../golden/${folder}/`, import.meta.url));
  for (const page of globSync('*.md', { cwd: dir }).sort()) {
    describe(page, () => {
      const [head = '', ...cases] = readFileSync(join(dir, page), 'utf8').split(/^(?=## )/m);
      const played = [head];
      for (const [number, text] of cases.entries())
        it(/^## (.*)$/m.exec(text)?.[1] ?? text, async () => {
          await using stage = await open(number);
          assert.equal(await play(stage, head), head);
          const actual = await play(stage, text);
          played.push(actual);
          if (!UPDATE) assert.equal(actual, text);
        });
      after(() => {
        const isWhole = played.length === cases.length + 1;
        if (UPDATE && isWhole) writeFileSync(join(dir, page), played.join(''));
      });
    });
  }
}

/** The text with what its commands print now. */
async function play(stage: Stage, text: string): Promise<string> {
  let played = '';
  let end = 0;
  for (const { 0: block, 1: language, 2: path, 3: content = '', index } of text.matchAll(BLOCK)) {
    played += text.slice(end, index);
    end = index + block.length;
    if (path !== undefined) {
      await stage.write(path, content);
      played += block;
    } else {
      assert.equal(language, 'console');
      const lines = content.match(/^\$ .*$/gm) ?? [];
      played += '```console\n';
      for (const line of lines) played += `${line}\n${await stage.run(line.slice(2))}`;
      played += '```';
    }
  }
  return played + text.slice(end);
}

/** Standard output, then each line of standard error behind `2>`, then an exit code that is not 0. */
export function printed(code: number | null, stdout: string, stderr: string): string {
  return `${stdout}${stderr.replace(/^(?=.)/gm, '2> ')}${code === 0 ? '' : `[exit code ${code}]\n`}`;
}
