import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { jsonReport } from '../../../lib/lint/json.ts';
import { fileOf } from '../../../lib/lint/report.ts';
import { prettyJson } from '../../../lib/text/escape.ts';
import { UNPRINTABLE } from '../config/support.ts';
import { anyProblem, check, hostile, PROBLEMS, reportOf } from './report-support.ts';

const { error, warning, info, nowhere } = PROBLEMS;

describe('the JSON report', () => {
  it('of a valid config is this text', () => {
    const report = check({
      'ip-masq-a': 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqLinkLocal: true\nresyncInterval: 90s',
    });
    assert.equal(
      jsonReport(report),
      `{
  "valid": true,
  "summary": {
    "errors": 0,
    "warnings": 0,
    "infos": 0
  },
  "sources": [
    {
      "name": "ip-masq-a",
      "file": "ip-masq-a"
    }
  ],
  "problems": [],
  "merged": {
    "sources": [
      "ip-masq-a"
    ],
    "nonMasqueradeCIDRs": [
      {
        "cidr": "10.0.0.0/8",
        "origin": {
          "source": "ip-masq-a",
          "file": "ip-masq-a",
          "line": 1,
          "column": 22
        }
      }
    ],
    "masqueradeCIDRs": [],
    "masqLinkLocal": true,
    "masqLinkLocalIPv6": false,
    "resyncIntervalMs": 90000
  }
}
`,
    );
  });

  it('has the defaults and what they follow where there is no source', () => {
    const { valid, merged } = JSON.parse(jsonReport(check({})));
    const origin = { builtIn: 'RFC 1918' };
    assert.equal(valid, true);
    assert.deepEqual(merged, {
      sources: [],
      nonMasqueradeCIDRs: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'].map((cidr) => ({ cidr, origin })),
      masqueradeCIDRs: [],
      masqLinkLocal: false,
      masqLinkLocalIPv6: false,
      resyncIntervalMs: null,
    });
  });

  it('has every problem in its order, each with all keys, and no merged config', () => {
    assert.deepEqual(JSON.parse(jsonReport(reportOf(info, error, warning, nowhere))), {
      valid: false,
      summary: { errors: 2, warnings: 1, infos: 1 },
      sources: [
        { name: 'ip-masq-a', file: 'ip-masq-a' },
        { name: 'ip-masq-b', file: 'deploy/b.yaml' },
      ],
      problems: [
        {
          severity: 'info',
          kind: 'duplicate',
          message: '10.0.0.0/8 is listed twice',
          remedy: 'one of the two can go',
          at: { source: 'ip-masq-b', file: 'deploy/b.yaml', line: 2, column: 5 },
          other: { source: 'ip-masq-a', file: 'ip-masq-a', line: 1, column: 22 },
        },
        {
          severity: 'error',
          kind: 'unreadable',
          message: 'is too large',
          remedy: 'split it',
          at: { source: 'ip-masq-c', file: 'ip-masq-c', line: null, column: null },
          other: null,
        },
        {
          severity: 'warning',
          kind: 'link-local-flag',
          message: 'masqLinkLocal is false here',
          remedy: 'make the sources agree',
          at: { source: 'ip-masq-a', file: 'ip-masq-a', line: 2, column: 1 },
          other: { builtIn: 'RFC 3927' },
        },
        {
          severity: 'error',
          kind: 'unreadable',
          message: 'config directory /etc/config is missing',
          remedy: 'mount it',
          at: null,
          other: null,
        },
      ],
      merged: null,
    });
  });

  it('is valid with warnings and infos', () => {
    const report = check({ 'ip-masq-a': 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8]', 'ip-masq-b': '' });
    const { valid, summary, merged } = JSON.parse(jsonReport(report));
    assert.deepEqual([valid, summary], [true, { errors: 0, warnings: 1, infos: 1 }]);
    assert.deepEqual(merged.sources, ['ip-masq-a', 'ip-masq-b']);
  });

  it('gives every name and message back as it was, and has none of their control characters', () => {
    fc.assert(
      fc.property(fc.array(anyProblem(), { maxLength: 4 }), (problems) => {
        const text = jsonReport(reportOf(...problems));
        assert.doesNotMatch(text.replaceAll('\n', ''), UNPRINTABLE);
        assert.deepEqual(
          JSON.parse(text).problems.map((problem: Read) => [
            problem.message,
            problem.remedy,
            problem.at?.file,
          ]),
          problems.map(({ message, remedy, at }) => [message, remedy, fileOf(at)]),
        );
      }),
    );
  });
});

describe('indented JSON', () => {
  it('names with escapes what is no plain text', () => {
    assert.equal(
      prettyJson(['\u0000\n\u007f\u0085\u202e\u2028\u{e0001}\ud800', 'é😀']),
      '[\n  "\\u0000\\n\\u007f\\u0085\\u202e\\u2028\\udb40\\udc01\\ud800",\n  "é😀"\n]\n',
    );
  });

  it('is read back the same', () => {
    fc.assert(
      fc.property(fc.dictionary(hostile(), hostile()), (value) => {
        assert.deepEqual(JSON.parse(prettyJson(value)), JSON.parse(JSON.stringify(value)));
      }),
    );
  });
});

interface Read {
  readonly message: string;
  readonly remedy: string;
  readonly at: { readonly file?: string } | null;
}
