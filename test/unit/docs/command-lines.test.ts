import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { COMMANDS } from '../../../cmd/ip-masq-agent/commands.ts';
import { UsageError } from '../../../cmd/ip-masq-agent/exit.ts';
import { flagValues } from '../../../cmd/ip-masq-agent/flag-table.ts';
import { FLAGS, IGNORED_FLAGS } from '../../../cmd/ip-masq-agent/flags.ts';
import { parseArgs } from '../../../cmd/ip-masq-agent/parse-args.ts';
import { blocks, PAGES, prose, read } from './markdown.ts';

/** What the pages call wrong on purpose. */
const WRONG = ['--enable-ipv6 false'];

/** Flags of other programs that the pages name by themselves. */
const OF_OTHERS = [
  '--disable-default-snat', // gcloud
  '--flag', // any
  '--bool',
  '--noflush', // iptables-restore
  '--non-masquerade-cidr', // kubelet
];

const OWN_FLAGS: readonly string[] = [
  ...Object.keys(FLAGS),
  ...Object.values(COMMANDS).flatMap(({ own }) => Object.keys(own)),
  ...IGNORED_FLAGS.keys(),
  'help',
  'version',
].map((name) => `--${name}`);

describe('a command line of the documentation', () => {
  const lines = PAGES.flatMap((page) => commandLines(read(page)).map((line) => ({ page, line })));

  it('is found in blocks, in pipes, behind the -- of kubectl and docker, and in sentences', () => {
    const text = [
      '```sh',
      'kubectl exec POD -- ip-masq-agent doctor   # look',
      "kubectl get cm ip-masq-agent -o jsonpath='{.data}' | ip-masq-agent check --strict -",
      'docker run registry.example.com/ip-masq-agent:v0.1.0 check \\',
      '  --enable-ipv6 a',
      'kubectl kustomize x | docker run --rm $IMAGE check --cidr-limit=9 -',
      '```',
      'Use `ip-masq-agent diff --config-dir=./x`, `explain --live ADDRESS`, or `source <(ip-masq-agent completion bash)`; not `doctor`.',
    ].join('\n');
    assert.deepEqual(commandLines(text), [
      'doctor',
      'check --strict -',
      'check --enable-ipv6 a',
      'check --cidr-limit=9 -',
      'diff --config-dir=./x',
      'completion bash',
      'explain --live ADDRESS',
    ]);
    assert.ok(lines.length > 40);
  });

  it('is one that the agent takes', () => {
    const refused = lines.flatMap(({ page, line }) => {
      const error = refusal(line);
      return error === undefined ? [] : [`${page}: ${line}: ${error}`];
    });
    assert.deepEqual(refused, []);
  });

  it('would be refused with a flag or a command that there is not', () => {
    for (const line of ['docter', 'doctor --liev', 'diff --live', 'run --backend=nft'])
      assert.notEqual(refusal(line), undefined, line);
  });
});

describe('a flag of the documentation', () => {
  for (const page of PAGES) {
    it(`is one that there is, in ${page}`, () => {
      const named = inlineCode(read(page))
        .filter((code) => code.startsWith('--') && !WRONG.includes(code))
        .flatMap((code) => code.split(' ').filter((word) => word.startsWith('--')))
        .map((word) => word.replace(/=.*/s, ''));
      assert.deepEqual(
        named.filter((name) => !OWN_FLAGS.includes(name) && !OF_OTHERS.includes(name)),
        [],
      );
    });
  }

  it('of another program is named somewhere', () => {
    const all = PAGES.flatMap((page) => inlineCode(read(page))).join(' ');
    assert.deepEqual(
      OF_OTHERS.filter((name) => !all.includes(name)),
      [],
    );
  });
});

/** What stands behind the name of the agent wherever a page runs it, comments and redirections taken off. */
function commandLines(page: string): readonly string[] {
  const typed = blocks(page, 'console').flatMap((text) => text.match(/^\$ .*/gm) ?? []);
  const scripts = [...blocks(page, 'sh'), ...typed]
    .flatMap((script) => script.replaceAll(/ *\\\n\s*/g, ' ').split('\n'))
    .map((line) => line.replace(/ +# .*/, ''));
  const sentences = inlineCode(page);
  const run = /(?:(?:^|[|$] |-- |<\(|\/)ip-masq-agent(?::\S+)?|docker run [^|]*\$IMAGE) ([^|>#)]+)/g;
  const named = [...scripts, ...sentences].flatMap((code) =>
    // A name of an object of Kubernetes looks alike.
    [...code.matchAll(run)]
      .filter(([text]) => !/^\/ip-masq-agent [^c]/.test(text))
      .map(([, line = '']) => line),
  );
  const short = sentences
    .filter((code) => Object.hasOwn(COMMANDS, code.split(' ')[0] ?? '') && code.includes(' '))
    // In a sentence the last word may be left to the reader.
    .map((code) => (refusal(code)?.includes('needs a') ? `${code} …` : code));
  return [...named, ...short].map((line) => line.replace(/^COMMAND\b/, 'run').trim());
}

/** Why the agent refuses the words behind its name; undefined where it takes them. */
function refusal(line: string): string | undefined {
  const words = line.split(/\s+/);
  try {
    const { command, texts } = parseArgs(words);
    flagValues({ ...FLAGS, ...COMMANDS[command]?.own }, texts);
    return undefined;
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
}

function inlineCode(page: string): readonly string[] {
  return [...prose(page).matchAll(/`([^`]+)`/g)].map(([, code = '']) => code.replaceAll(/\s+/g, ' '));
}
