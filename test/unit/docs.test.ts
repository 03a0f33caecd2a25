import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { anchorOf, generatedFiles } from '../../build/docs.ts';
import { REPOSITORY } from '../../build/repository.ts';
import { COMMANDS } from '../../cmd/ip-masq-agent/commands.ts';
import { flagValues } from '../../cmd/ip-masq-agent/flag-table.ts';
import { FLAGS } from '../../cmd/ip-masq-agent/flags.ts';
import { parseArgs } from '../../cmd/ip-masq-agent/parse-args.ts';
import { DIFFERENCES } from '../../lib/dataplane/dataplane.ts';
import { assertSameText } from '../lab/same-text.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PAGES = globSync('{*.md,{.github,docs,examples,lib,test}/**/*.md}', { cwd: ROOT });

/** The files of the repository, for pages that people also read elsewhere. */
const OWN = `https://github.com/${REPOSITORY}/blob/main/`;

/** A fenced block. */
const FENCED = /^( *)```.*?^\1```$/gms;

/** What a page quotes: a block of messages, or code in a sentence. */
const QUOTED = /^( *)```text\n(.*?)^\1```$|`([^`\n]+)`/gms;

/** Commands of other programs. */
const COMMAND = /^(?:gh|git|ip|kubectl|kustomize|make|nft|tcpdump|ufw) /;

/** What messages have from other programs, and what they have in place of a variable. */
const NOT_IN_CODE = [
  'cannot open shared object file: no such file or directory',
  'resource temporarily unavailable; another app is currently holding the xtables lock. stopped waiting after',
  'field is immutable',
  'is masqueraded',
  'rule of docker in',
  '2 best addresses in',
  'connections still have',
];

describe('the links of the documentation', () => {
  for (const page of PAGES) {
    it(`lead to files and headings that exist, in ${page}`, () => {
      const links = [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
      const broken = links.filter((link) =>
        link.startsWith(OWN)
          ? !leadsSomewhere('README.md', link.slice(OWN.length))
          : !link.startsWith('https:') && !leadsSomewhere(page, link),
      );
      assert.deepEqual(broken, []);
    });
  }
});

describe('what the code generates', () => {
  for (const [path, text] of Object.entries(generatedFiles())) {
    it(`is in ${path} as the code says`, () => {
      assertSameText(readFileSync(join(ROOT, path), 'utf8'), text, 'node build/docs.ts writes it anew');
    });
  }
});

describe('the messages that a page quotes', () => {
  const words = /[a-z]{2,} [a-z]{2,}/;
  const parts = piecesOfCode().filter((piece) => words.test(piece));
  const longestFirst = [...parts, ...NOT_IN_CODE].toSorted((one, other) => other.length - one.length);
  /** Three words or more in a row, none of them a name or a value, that no piece of the code has. */
  const unknown = (line: string) =>
    longestFirst
      .reduce((rest, piece) => rest.replaceAll(piece, '\0'), line.toLowerCase())
      .match(/(?<![\w.-])[a-z]{2,}(?: [a-z]{2,}){2,}(?![\w-])/g) ?? [];
  /** The same of a part of a message. */
  const unknownPart = (part: string) =>
    COMMAND.test(part)
      ? []
      : unknown(part).filter((run) => !longestFirst.some((piece) => piece.includes(run)));

  for (const page of PAGES.filter((path) => /^(README\.md|docs|examples)/.test(path))) {
    it(`are those of the code, in ${page}`, () => {
      const quotes = [...readFileSync(join(ROOT, page), 'utf8').matchAll(QUOTED)];
      const found = quotes.flatMap(([, , block, inline = '']) =>
        block === undefined ? unknownPart(inline) : block.split('\n').flatMap(unknown),
      );
      assert.deepEqual(found, []);
    });
  }

  it('have every difference that a repair can find', () => {
    const text = readFileSync(join(ROOT, 'docs/runbook.md'), 'utf8');
    const found = Object.values(DIFFERENCES).flat();
    const missing = found.filter((difference) => !text.includes(`\`${difference}\``));
    assert.deepEqual(missing, []);
  });
});

describe('the command lines of the agent in a page', () => {
  const names = Object.keys(COMMANDS).join('|');
  const line = new RegExp(`(?:ip-masq-agent|kubectl ip-masq) (?:${names})\\b[^|#;>)\n]*`, 'g');
  for (const page of PAGES.filter((path) => !path.startsWith('test/golden/'))) {
    const text = readFileSync(join(ROOT, page), 'utf8').replaceAll(/\\\n */g, '');
    const code = [...text.matchAll(/^( *)```(?:sh|console)\n.*?^\1```$|`[^`\n]+`/gms)].map(([all]) => all);
    const lines = code.flatMap((part) => part.match(line) ?? []);
    if (lines.length === 0) continue;
    it(`are right, in ${page}`, () => {
      for (const one of lines) {
        const words = one.replaceAll(/^kubectl ip-masq|^ip-masq-agent|[`']/g, (begin) =>
          begin.startsWith('kubectl') ? 'fleet' : '',
        );
        const { command, flagTexts } = parseArgs(words.trim().split(/ +/));
        flagValues({ ...FLAGS, ...COMMANDS[command]?.own }, flagTexts);
      }
    });
  }
});

/** The texts between quotes, variables and ends of lines in what people run, in lower case. */
function piecesOfCode(): readonly string[] {
  const files = globSync('{cmd,lib}/**/*.ts', { cwd: ROOT });
  const code = [...files, 'build/setup.sh', 'examples/kubernetes/admission/errors.yaml'].map((path) =>
    readFileSync(join(ROOT, path), 'utf8').replaceAll(/^ *(?:\/\*)?\*.*$|(?<=^|\s)\/\/ .*$/gm, ''),
  );
  const pieces = code
    .join('\n')
    .toLowerCase()
    .split(/\\?['"`]|\$\{|\$\w+|\}|\n|\\n/);
  return [...new Set(pieces.map((piece) => piece.replaceAll(/^[\s:;,]+|[\s:;,]+$/g, '')))];
}

/** Whether the target of a link exists; a link that begins with `#` leads to a heading of its own page. */
function leadsSomewhere(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? page : join(dirname(page), path);
  if (!existsSync(join(ROOT, target))) return false;
  return anchor === undefined || anchors(target).includes(anchor);
}

/** The anchors of the headings of a page. */
function anchors(page: string): readonly string[] {
  return [...prose(page).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) => anchorOf(title));
}

/** The text of a page without its fenced blocks. */
function prose(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8').replaceAll(FENCED, '');
}
