import fc from 'fast-check';
import type { ConfigFile } from '../../../lib/config/config-file.ts';
import { type FileOnly, KINDS, type Problem, type ProblemKind } from '../../../lib/config/problem.ts';
import type { CheckReport } from '../../../lib/report/report.ts';
import type { FileOrigin, Origin } from '../../../lib/text/origin.ts';

export const ERROR: Problem = {
  severity: 'error',
  kind: 'unreadable',
  message: 'is too large',
  remedy: 'split it',
  at: { kind: 'whole-file', file: 'ip-masq-c' },
};

const MANIFEST = 'list:\n  - 10.0.0.0/8\n';

const CONFIG_FILES: readonly ConfigFile[] = [
  { name: 'ip-masq-a', text: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nmasqLinkLocal: false\n' },
  {
    name: 'ip-masq-b',
    text: '- 10.0.0.0/8\n',
    embeddedIn: { file: { name: 'deploy/b.yaml', text: MANIFEST }, line: 2, column: 3, lineByLine: true },
  },
];

/** The problems with the config files that they point into. */
export function reportOf(...problems: readonly Problem[]): CheckReport {
  return { problems, config: undefined, configFiles: CONFIG_FILES };
}

const PIECES = [
  ...['%', '%25', '%0A', '\r', '\n', '\r\n', ':', '::', ',', '=', ' ', '##[error]', '\u001b[31m', '\u0085'],
  ...['\u202e', '\u2028', '\ud800', '😀', 'é', '{0}', '}', '[', '](1)', '](https://evil.example)', '\\', '"'],
  ...['/', '//', './', '../', '?', '#', '<', '>', '&', 'ip-masq-a', '\u0000', '\u007f'],
];

/** Texts that could be taken for more than text: by a terminal, by the runner, by a reader of URIs or of SARIF. */
export function hostile(): fc.Arbitrary<string> {
  const pieces = fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((all) => all.join(''));
  return fc.oneof(pieces, fc.string({ unit: 'binary' }));
}

/** Problems of every kind and place, with hostile names and messages. */
export function anyProblem(): fc.Arbitrary<Problem> {
  const inFile: fc.Arbitrary<FileOrigin> = fc.record(
    {
      kind: fc.constant('file' as const),
      configFile: hostile(),
      file: hostile(),
      line: fc.integer({ min: 1 }),
      column: fc.integer({ min: 1 }),
    },
    { requiredKeys: ['kind', 'configFile', 'line', 'column'] },
  );
  const wholeFile: fc.Arbitrary<FileOnly> = fc.record({
    kind: fc.constant('whole-file' as const),
    file: hostile(),
  });
  const origin: fc.Arbitrary<Origin> = fc.oneof(
    inFile,
    fc.constant({ kind: 'built-in' as const, basis: 'RFC 3927' }),
  );
  return fc.record(
    {
      severity: fc.constantFrom('error' as const, 'warning' as const, 'info' as const),
      kind: fc.constantFrom(...(Object.keys(KINDS) as ProblemKind[])),
      message: hostile(),
      remedy: hostile(),
      at: fc.oneof(origin, wholeFile),
      other: origin,
    },
    { requiredKeys: ['severity', 'kind', 'message', 'remedy'] },
  );
}
