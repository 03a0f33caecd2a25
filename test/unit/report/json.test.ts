import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { jsonReport } from '../../../lib/report/json.ts';
import { fileOf } from '../../../lib/report/report.ts';
import { UNPRINTABLE } from '../config/support.ts';
import { anyProblem, check, reportOf } from './report-support.ts';

describe('the JSON report', () => {
  it('names what the defaults follow', () => {
    const { merged } = JSON.parse(jsonReport(check({})));
    assert.deepEqual(merged.nonMasqueradeCIDRs[0], { cidr: '10.0.0.0/8', origin: { builtIn: 'RFC 1918' } });
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

interface Read {
  readonly message: string;
  readonly remedy: string;
  readonly at: { readonly file?: string } | null;
}
