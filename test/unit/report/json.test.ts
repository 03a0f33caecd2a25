import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { configHash } from '../../../lib/config/config-hash.ts';
import type { Problem } from '../../../lib/config/problem.ts';
import { jsonReport } from '../../../lib/report/json.ts';
import { fileOf } from '../../../lib/report/report.ts';
import { UNPRINTABLE } from '../config/support.ts';
import { anyProblem, check, PROBLEMS, reportOf } from './report-support.ts';

const { error, warning, info, nowhere } = PROBLEMS;

describe('the JSON report', () => {
  it('has the merged config, each value with its place', () => {
    const text =
      'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqueradeAddresses: [{address: 198.51.100.0/24, destination: 0.0.0.0/0}]\nmasqLinkLocal: true\nresyncInterval: 90s';
    const at = (line: number, column: number) => ({
      configFile: 'ip-masq-a',
      file: 'ip-masq-a',
      line,
      column,
    });
    assert.deepEqual(JSON.parse(jsonReport(check({ 'ip-masq-a': text }))), {
      ok: true,
      hash: configHash(check({ 'ip-masq-a': text }).config ?? assert.fail()),
      summary: { errors: 0, warnings: 0, infos: 0 },
      expectations: null,
      configFiles: [{ name: 'ip-masq-a', file: 'ip-masq-a' }],
      problems: [],
      merged: {
        configFiles: ['ip-masq-a'],
        nonMasqueradeCIDRs: [{ cidr: '10.0.0.0/8', origin: at(1, 22) }],
        masqueradeCIDRs: [],
        masqueradeFromCIDRs: [],
        nonMasqueradeFromCIDRs: [],
        masqueradeAddresses: [{ destination: '0.0.0.0/0', address: '198.51.100.0/24', origin: at(2, 23) }],
        masqLinkLocal: true,
        masqLinkLocalIPv6: false,
        resyncIntervalMs: 90_000,
      },
    });
  });

  it('names what the defaults follow', () => {
    const { merged } = JSON.parse(jsonReport(check({})));
    assert.deepEqual(merged.nonMasqueradeCIDRs[0], { cidr: '10.0.0.0/8', origin: { builtIn: 'RFC 1918' } });
  });

  it('has every problem in its order, each with all keys, and no merged config', () => {
    assert.deepEqual(JSON.parse(jsonReport(reportOf(info, error, warning, nowhere))), {
      ok: false,
      hash: null,
      summary: { errors: 2, warnings: 1, infos: 1 },
      expectations: null,
      configFiles: [
        { name: 'ip-masq-a', file: 'ip-masq-a' },
        { name: 'ip-masq-b', file: 'deploy/b.yaml' },
      ],
      problems: [
        {
          ...plain(info),
          at: { configFile: 'ip-masq-b', file: 'deploy/b.yaml', line: 2, column: 5 },
          other: { configFile: 'ip-masq-a', file: 'ip-masq-a', line: 1, column: 22 },
        },
        {
          ...plain(error),
          at: { configFile: 'ip-masq-c', file: 'ip-masq-c', line: null, column: null },
          other: null,
        },
        {
          ...plain(warning),
          at: { configFile: 'ip-masq-a', file: 'ip-masq-a', line: 2, column: 1 },
          other: { builtIn: 'RFC 3927' },
        },
        { ...plain(nowhere), at: null, other: null },
      ],
      merged: null,
    });
  });

  it('is ok with warnings and infos', () => {
    const report = check({ 'ip-masq-a': 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8]', 'ip-masq-b': '' });
    const { ok, summary, merged } = JSON.parse(jsonReport(report));
    assert.deepEqual([ok, summary], [true, { errors: 0, warnings: 1, infos: 1 }]);
    assert.deepEqual(merged.configFiles, ['ip-masq-a', 'ip-masq-b']);
  });

  it('gives every name and message back as it was, and has none of their control characters', () => {
    fc.assert(
      fc.property(fc.array(anyProblem(), { maxLength: 4 }), (problems) => {
        const text = jsonReport(reportOf(...problems));
        assert.doesNotMatch(text.replaceAll('\n', ''), UNPRINTABLE);
        const read = JSON.parse(text).problems.map(({ message, remedy, at }: Read) => [
          message,
          remedy,
          at?.file,
        ]);
        const written = problems.map(({ message, remedy, at }) => [message, remedy, fileOf(at)]);
        assert.deepEqual(read, written);
      }),
    );
  });
});

function plain({ severity, kind, message, remedy }: Problem) {
  return { severity, kind, message, remedy };
}

interface Read {
  readonly message: string;
  readonly remedy: string;
  readonly at: { readonly file?: string } | null;
}
