import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ConfigOptions } from '../../lib/config/config.ts';
import { formatProblemFrame } from '../../lib/config/frame.ts';
import { InvalidConfigError } from '../../lib/config/invalid-config.ts';
import { type LoadedConfig, mergeSources } from '../../lib/config/load.ts';
import { type ConflictKind, formatProblem, type Problem } from '../../lib/config/problem.ts';
import type { Source } from '../../lib/config/source.ts';
import { block, blocks, column, read, section as sectionOf } from './docs/markdown.ts';

const README = read('README.md');
const OPTIONS: ConfigOptions = {
  enableIPv6: false,
  cidrLimit: 64,
  strict: false,
  noMasqAllReservedRanges: false,
};

/** For each kind of conflict, sources `ip-masq-0`, `ip-masq-1` … that have it. */
const CONFLICTS: Readonly<Record<ConflictKind, readonly (readonly string[])[]>> = {
  'both-lists': [
    ['nonMasqueradeCIDRs: [10.0.0.0/8]', 'masqueradeCIDRs: [10.0.0.0/8]'],
    ['{nonMasqueradeCIDRs: [10.0.0.0/8], masqueradeCIDRs: [10.0.0.0/8]}'],
  ],
  'resync-interval': [['resyncInterval: 60s', 'resyncInterval: 61s']],
  'link-local-flag': [
    ['masqLinkLocal: true', 'masqLinkLocal: false'],
    ['masqLinkLocalIPv6: false', 'masqLinkLocalIPv6: true'],
  ],
  'link-local-entry': [
    ['{masqLinkLocal: true, nonMasqueradeCIDRs: [169.254.0.0/16]}'],
    ['masqueradeCIDRs: [169.254.0.0/16]'],
    ['masqueradeCIDRs: ["fe80::/10"]'],
  ],
  'opposite-nested': [['nonMasqueradeCIDRs: [10.0.0.0/8]', 'masqueradeCIDRs: [10.1.0.0/16]']],
  duplicate: [['nonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8]']],
  covered: [['nonMasqueradeCIDRs: [10.0.0.0/8]', 'nonMasqueradeCIDRs: [10.1.0.0/16]']],
};

describe("the README's", () => {
  it('table of keys has every key of the schema and no other', () => {
    const { properties } = JSON.parse(read('schemas/ip-masq-config.schema.json')) as {
      readonly properties: Readonly<Record<string, unknown>>;
    };
    const [head, ...keys] = column(section('Configuration'), 0);
    assert.equal(head, 'key');
    assert.deepEqual(keys, Object.keys(properties));
  });

  it('table of conflicts has every kind, with its severity', () => {
    const rules = section('Merge and conflicts');
    const [, ...kinds] = column(rules, 0);
    const [, ...severities] = column(rules, 2);
    assert.deepEqual(
      Object.fromEntries(kinds.map((kind, index) => [kind, severities[index]])),
      Object.fromEntries(
        Object.entries(CONFLICTS).map(([kind, cases]) => [kind, [...severitiesOf(kind, cases)].join()]),
      ),
    );
  });

  it('example of two sources has no problem', () => {
    const sources = sourcesIn(section('Configuration'));
    assert.equal(sources.length, 2);
    assert.deepEqual(merge(sources).problems, []);
  });

  for (const heading of ['A conflict', 'An invalid file']) {
    it(`log below "${heading}" is what the agent says of the sources there`, () => {
      const text = section(heading);
      const sources = sourcesIn(text);
      const { problems } = merge(sources);
      assert.deepEqual(logLines(block(text, 'text')), [
        ...problems.map(
          (problem) =>
            [problem.severity, problem.kind, formatProblemFrame(problem, sources).split('\n')] as const,
        ),
        ['fatal', undefined, [lastWords(problems)]],
      ]);
    });
  }

  it('termination message is that of the invalid file', () => {
    const { problems } = merge(sourcesIn(section('An invalid file')));
    const message = [lastWords(problems), ...problems.map(formatProblem)].join('\n');
    assert.ok(section('Exit codes').includes(`Message:      ${message}\n`));
  });

  it('chain is the one that kernels show', () => {
    const [, ipv4 = ''] = /^# IPv4\n(.*)^# IPv6$/ms.exec(read('test/kernel/golden/exceptions.txt')) ?? [];
    assert.equal(block(section('Reading the chain'), 'text'), ipv4);
  });
});

function section(title: string): string {
  return sectionOf(README, title);
}

function merge(sources: readonly Source[]): Pick<LoadedConfig, 'config' | 'problems'> {
  return mergeSources(sources, OPTIONS);
}

/** What the agent says at its end. */
function lastWords(problems: readonly Problem[]): string {
  return `${new InvalidConfigError(problems).message}; the rules applied last stay`;
}

/** All severities that the conflict has in the cases. */
function severitiesOf(kind: string, cases: readonly (readonly string[])[]): ReadonlySet<string> {
  return new Set(
    cases.map((texts) => {
      const sources = texts.map((text, index) => ({ name: `ip-masq-${index}`, text: `${text}\n` }));
      const { problems } = mergeSources(sources, { ...OPTIONS, enableIPv6: true });
      const found = problems.find((problem) => problem.kind === kind);
      return found?.severity ?? `not found in ${JSON.stringify(texts)}`;
    }),
  );
}

/** The YAML blocks whose first line is a comment that begins with the file's name. */
function sourcesIn(text: string): readonly Source[] {
  return blocks(text, 'yaml').flatMap((content) => {
    const [, name] = /^# (ip-masq-[\w-]+)/.exec(content) ?? [];
    return name === undefined ? [] : [{ name, text: content }];
  });
}

type LogLine = readonly [level: string, kind: string | undefined, lines: readonly string[]];

/** A text log without its times: level, kind, then the message and the lines of its frame. */
function logLines(log: string): readonly LogLine[] {
  const severities: Readonly<Record<string, string>> = { WARN: 'warning' };
  return log
    .trimEnd()
    .split(/\n(?=\S)/)
    .map((entry) => {
      const [first = '', ...frame] = entry.split('\n');
      const [, level = '', message = '', kind] =
        /^[\d:.]{12} ([A-Z]+) +(.*?)(?: kind=([a-z-]+))?$/.exec(first) ?? [];
      return [
        severities[level] ?? level.toLowerCase(),
        kind,
        [message, ...frame.map((line) => line.replace(/^ {2}/, ''))],
      ];
    });
}
