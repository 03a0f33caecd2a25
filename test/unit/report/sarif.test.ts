import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import fc from 'fast-check';
import { KINDS, type ProblemKind } from '../../../lib/config/problem.ts';
import { printedSentence } from '../../../lib/report/report.ts';
import { sarifReport } from '../../../lib/report/sarif.ts';
import { UNPRINTABLE } from '../config/support.ts';
import { anyProblem, hostile, PROBLEMS, reportOf } from './report-support.ts';

const { error, warning, info, nowhere } = PROBLEMS;

// OASIS' schema as Microsoft's SARIF tools ship it, in the words of JSON Schema 2020-12.
const SCHEMA = new URL(
  '../assets/sarif-2.1.0.schema.json',
  import.meta.resolve('@microsoft/sarif-multitool-ts'),
);
const ajv = new Ajv2020({ strict: false, allErrors: true });
formats.default(ajv);
const isSarif = ajv.compile(JSON.parse(readFileSync(SCHEMA, 'utf8')));

describe('the SARIF report', () => {
  it('names its version, the tool and the unit of columns', () => {
    const { runs, ...rest } = parse(reportOf());
    assert.deepEqual(rest, {
      version: '2.1.0',
      $schema: 'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json',
    });
    const [run, ...others] = runs;
    assert.deepEqual(others, []);
    assert.equal(run?.columnKind, 'utf16CodeUnits');
    assert.deepEqual(run?.results, []);
    const { rules: _, ...driver } = run?.tool.driver ?? {};
    assert.deepEqual(driver, { name: 'ip-masq-agent', version: '1.2.3' });
  });

  it('has a rule for each kind of problem', () => {
    const rules = parse(reportOf()).runs[0]?.tool.driver.rules ?? [];
    const meanings = rules.map(({ id, shortDescription }) => [id, shortDescription.text]);
    assert.deepEqual(
      meanings,
      Object.entries(KINDS).map(([id, { meaning }]) => [id, meaning]),
    );
    const level = (kind: string) => rules.find(({ id }) => id === kind)?.defaultConfiguration.level;
    assert.deepEqual(['both-lists', 'empty', 'covered'].map(level), ['error', 'warning', 'note']);
  });

  it('has a result for each problem, in their order', () => {
    const log = parse(reportOf(info, error, warning, nowhere));
    assertSarif(log);
    const rule = (ruleId: ProblemKind) => ({ ruleId, ruleIndex: Object.keys(KINDS).indexOf(ruleId) });
    const results = resultsOf(log).map(({ message: _, ...result }) => result);
    const other = physical('ip-masq-a', { startLine: 1, startColumn: 22 });
    assert.deepEqual(results, [
      {
        ...rule('duplicate'),
        level: 'note',
        locations: [physical('deploy/b.yaml', { startLine: 2, startColumn: 5 })],
        relatedLocations: [{ ...other, message: { text: 'The other of the two.' } }],
      },
      { ...rule('unreadable'), level: 'error', locations: [physical('ip-masq-c')] },
      {
        ...rule('link-local-flag'),
        level: 'warning',
        locations: [physical('ip-masq-a', { startLine: 2, startColumn: 1 })],
      },
      { ...rule('unreadable'), level: 'error', locations: [] },
    ]);
  });

  it('stays valid and names the rule of each result, whatever the problems hold', () => {
    fc.assert(
      fc.property(fc.array(anyProblem(), { maxLength: 4 }), (problems) => {
        const text = sarifReport(reportOf(...problems), '1.2.3');
        assert.doesNotMatch(text.replaceAll('\n', ''), UNPRINTABLE);
        const log: Log = JSON.parse(text);
        assertSarif(log);
        const rules = log.runs[0]?.tool.driver.rules ?? [];
        for (const { ruleId, ruleIndex } of resultsOf(log)) assert.equal(rules[ruleIndex]?.id, ruleId);
      }),
    );
  });
});

describe('the URI of a file in SARIF', () => {
  for (const [path, uri] of [
    ['.', './'],
    ['deploy/ip-masq-a.yaml', 'deploy/ip-masq-a.yaml'],
    ['./deploy//a.yaml', 'deploy/a.yaml'],
    ['../a.yaml', '../a.yaml'],
    ['a/../b.yaml', 'a/../b.yaml'],
    ['/etc/config/ip-masq-a', 'file:///etc/config/ip-masq-a'],
    ['a b#c?d%e', 'a%20b%23c%3Fd%25e'],
    ['https://evil.example/a', 'https%3A/evil.example/a'],
    ['a\u001b[2J\n', 'a%1B%5B2J%0A'],
    ['\ud800', '%EF%BF%BD'],
    ['standard input', 'standard%20input'],
  ] as const) {
    it(`is ${uri} for ${JSON.stringify(path)}`, () => assert.equal(uriOf(path), uri));
  }

  it('leads to no other place than a file below its base', () => {
    fc.assert(
      fc.property(hostile(), (path) => {
        const url = new URL(uriOf(path), 'file:///base/');
        assert.deepEqual([url.protocol, url.host, url.search, url.hash], ['file:', '', '', '']);
      }),
    );
  });

  it('has every segment of the path', () => {
    fc.assert(
      fc.property(hostile(), (path) => {
        const segments = (text: string) => text.split('/').filter((segment) => !['', '.'].includes(segment));
        const uri = uriOf(path).replace(/^file:\/\/\//, '');
        assert.deepEqual(segments(uri).map(decodeURIComponent), segments(path.toWellFormed()));
      }),
    );
  });
});

describe('the message of a SARIF result', () => {
  it('is no embedded link, also behind a backslash', () => {
    const [result] = resultsOf(parse(reportOf({ ...error, message: 'see [here](//x) or [here\\](1)' })));
    assert.equal(result?.message.text, 'see [here\\](//x) or [here\\\\\\](1); split it');
  });

  it('has no link and no placeholder, and reads as the sentence, whatever the problem holds', () => {
    fc.assert(
      fc.property(anyProblem(), (problem) => {
        const [result] = resultsOf(parse(reportOf(problem)));
        const text = result?.message.text ?? '';
        assert.doesNotMatch(text, /\[(?:[^\\[\]]|\\[\\[\]])*\]\(/);
        assert.doesNotMatch(text.replaceAll('{{', '').replaceAll('}}', ''), /[{}]/);
        const unescaped = text.replace(/\{\{|\}\}/g, (pair) => pair.charAt(0));
        const read = unescaped.replace(/(\\*)\\\]\(/g, (_, run: string) => `${run.slice(run.length / 2)}](`);
        assert.equal(read, printedSentence(problem));
      }),
    );
  });
});

/** What is read of a log here. */
interface Log {
  readonly runs: readonly {
    readonly columnKind: string;
    readonly tool: { readonly driver: { readonly rules: readonly Rule[] } };
    readonly results: readonly Result[];
  }[];
}

interface Rule {
  readonly id: string;
  readonly shortDescription: { readonly text: string };
  readonly defaultConfiguration: { readonly level: string };
}

interface Result {
  readonly ruleId: string;
  readonly ruleIndex: number;
  readonly message: { readonly text: string };
  readonly locations: readonly {
    readonly physicalLocation: { readonly artifactLocation: { readonly uri: string } };
  }[];
}

function parse(report: Parameters<typeof sarifReport>[0]): Log {
  return JSON.parse(sarifReport(report, '1.2.3'));
}

function assertSarif(log: Log): void {
  assert.ok(isSarif(log), ajv.errorsText(isSarif.errors));
}

function resultsOf({ runs }: Log): readonly Result[] {
  return runs[0]?.results ?? assert.fail('no run');
}

function uriOf(file: string): string {
  const [result] = resultsOf(parse(reportOf({ ...error, at: { kind: 'whole-file', file } })));
  return result?.locations[0]?.physicalLocation.artifactLocation.uri ?? assert.fail('no location');
}

function physical(uri: string, region?: { readonly startLine: number; readonly startColumn: number }) {
  return { physicalLocation: { artifactLocation: { uri }, ...(region === undefined ? {} : { region }) } };
}
