import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import fc from 'fast-check';
import { sarifReport } from '../../../lib/report/sarif.ts';
import { UNPRINTABLE } from '../config/support.ts';
import { anyProblem, ERROR, hostile, reportOf } from './report-support.ts';

// OASIS' schema as Microsoft's SARIF tools ship it, in the words of JSON Schema 2020-12.
const SCHEMA = new URL(
  '../assets/sarif-2.1.0.schema.json',
  import.meta.resolve('@microsoft/sarif-multitool-ts'),
);
const ajv = new Ajv2020({ strict: false, allErrors: true });
formats.default(ajv);
const isSarif = ajv.compile(JSON.parse(readFileSync(SCHEMA, 'utf8')));

describe('the SARIF report', () => {
  it('stays valid and names the rule of each result, whatever the problems hold', () => {
    fc.assert(
      fc.property(fc.array(anyProblem(), { maxLength: 4 }), (problems) => {
        const text = sarifReport(reportOf(...problems), '1.2.3');
        assert.doesNotMatch(text.replaceAll('\n', ''), UNPRINTABLE);
        const log: Log = JSON.parse(text);
        assertSarif(log);
        const rules = log.runs[0]?.tool.driver.rules ?? [];
        for (const { ruleId } of resultsOf(log))
          assert.ok(
            rules.some(({ id }) => id === ruleId),
            ruleId,
          );
      }),
    );
  });
});

describe('the URI of a file in SARIF', () => {
  for (const [path, uri] of [
    ['.', './'],
    ['/etc/config/ip-masq-a', 'file:///etc/config/ip-masq-a'],
    ['a b#c?d%e', 'a%20b%23c%3Fd%25e'],
    ['https://evil.example/a', 'https%3A/evil.example/a'],
    ['a\u001b[2J\n', 'a%1B%5B2J%0A'],
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
  const [result] = resultsOf(parse(reportOf({ ...ERROR, at: { kind: 'whole-file', file } })));
  return result?.locations[0]?.physicalLocation.artifactLocation.uri ?? assert.fail('no location');
}
