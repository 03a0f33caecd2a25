/** The unit tests of each room that can be mutated. Those of other rooms notice too much else, or take too long. */
const TESTS: Readonly<Record<string, readonly string[]>> = {
  cidr: ['cidr/*', 'policy/*', 'config/conflicts', 'cmd/flat-config'],
  config: ['config/*', 'cmd/golden'],
  inputs: ['inputs/*', 'cmd/golden'],
  policy: ['cidr/*', 'policy/*', 'config/conflicts', 'cmd/flat-config'],
  report: ['report/*', 'cmd/golden'],
  status: ['status/*', 'config/keys'],
};

const mutate = process.env['MUTATE'] || 'lib/{cidr,policy}/*.ts';
const rooms = Object.keys(TESTS).filter((room) => new RegExp(`^lib/.*\\b${room}\\b.*/`).test(mutate));
const tests = new Set(rooms.flatMap((room) => TESTS[room] ?? []));
if (tests.size === 0) throw new Error(`MUTATE=${mutate} is in none of lib/{${Object.keys(TESTS).join()}}`);

// biome-ignore lint/style/noDefaultExport: Stryker reads its options from there.
export default {
  mutate: [mutate],
  mutator: { excludedMutations: ['StringLiteral'] },
  testRunner: 'tap',
  plugins: ['@stryker-mutator/tap-runner'],
  tap: {
    testFiles: Array.from(tests, (name) => `test/unit/${name}.test.ts`),
    nodeArgs: [
      '--test-reporter=./test/mutants/reporter.ts',
      '--import=./test/lab/runs.ts',
      '--require={{hookFile}}',
      '{{testFile}}',
    ],
  },
  ignorePatterns: ['bin'],
  disableTypeChecks: true,
  tsconfigFile: 'none',
  reporters: ['clear-text', 'progress-append-only'],
  clearTextReporter: { logTests: false, reportTests: false, allowColor: false, skipFull: true },
  tempDirName: 'bin/mutants',
};
