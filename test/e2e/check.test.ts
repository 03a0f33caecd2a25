import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { CHECK_FLAGS } from '../../cmd/ip-masq-agent/command-flags.ts';
import { choicesOf } from '../lab/choices.ts';
import { type Command, type Environment, type RunOptions, run } from '../lab/run.ts';
import { IS_ROOT } from '../lab/user.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../lab/volume.ts';
import { BINARY } from './support.ts';

const MISTAKES = fileURLToPath(new URL('fixtures/twenty-mistakes.yaml', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../examples/', import.meta.url));
const INSIDE = 'nonMasqueradeCIDRs: [10.0.0.0/8]\n';
const SETPRIV = '/usr/bin/setpriv';

/** Kind, severity, line, column and what stands there; of a conflict also line and column of the other place. */
const EXPECTED = [
  ['cidr', 'error', 12, 9, '10.0.0.1/8'],
  ['shape', 'error', 13, 7, '-'],
  ['covered', 'info', 15, 9, '172.16.5.0/24', [14, 9]],
  ['unknown-key', 'error', 20, 14, '"masqueradeCIDR:'],
  ['duration', 'error', 20, 14, '"masqueradeCIDR:'],
  ['duplicate-key', 'error', 24, 14, "'{", [24, 14]],
  ['ipv6-disabled', 'error', 24, 14, "'{"],
  ['both-lists', 'error', 43, 7, '{', [16, 9]],
  ['opposite-nested', 'info', 43, 7, '{', [14, 9]],
  ['duplicate', 'info', 43, 7, '{', [20, 14]],
  ['link-local-flag', 'warning', 43, 7, '{', [18, 20]],
  ['resync-interval', 'error', 43, 7, '{', [17, 21]],
  ['cidr-limit', 'error', 51, 45, '169.254.0.0/16'],
  ['link-local-entry', 'warning', 51, 45, '169.254.0.0/16'],
  ['syntax', 'error', 55, 7, '\t- 198.18.0.0/15'],
  ['empty', 'warning', 58, 7, '# nothing but words'],
  ['encoding', 'error', 61, 16, 'eA==='],
  ['syntax', 'error', 66, 37, '-ip-masq'],
  ['not-a-source', 'warning', 73, 5, '"ip-masq.yaml"'],
  ['same-name', 'error', 74, 18, '"# 20: same-name', [10, 5]],
] as const;

/** One line for each: place, severity, kind. */
const FOUND = EXPECTED.map(
  ([kind, severity, line, column]) => `${line}:${column} ${severity} ${kind}`,
).sort();

describe('check, without root, kernel tools and PATH', () => {
  let scratch: TemporaryDirectory;
  before(async () => {
    scratch = await temporaryDirectory();
  });
  after(() => scratch[Symbol.asyncDispose]());

  describe('finds all twenty mistakes at their places', () => {
    it('which are where the manifest has them', () => {
      const lines = readFileSync(MISTAKES, 'utf8').split('\n');
      assert.equal(EXPECTED.length, 20);
      for (const [kind, , line, column, text] of EXPECTED)
        assert.ok(lines[line - 1]?.startsWith(text, column - 1), `${kind} ${line}:${column}`);
    });

    it('in text, each with its line and a caret below the column', async () => {
      const { code, stdout, stderr } = await check(MISTAKES);
      assert.deepEqual({ code, stderr }, { code: 3, stderr: '' });
      const lines = stdout.split('\n');
      const source = readFileSync(MISTAKES, 'utf8').split('\n');
      const found = lines.flatMap((text, index) => {
        const [, line, column, severity] = /:(\d+):(\d+): (error|warning|info): /.exec(text) ?? [];
        if (severity === undefined) return [];
        const shown = (source[Number(line) - 1] ?? '').replace('\t', '\\x09');
        assert.equal(lines[index + 1], ` ${line} | ${shown}`);
        assert.equal(lines[index + 2], `    | ${' '.repeat(Number(column) - 1)}^`);
        return [`${line}:${column} ${severity}`];
      });
      assert.deepEqual(found.sort(), FOUND.map((one) => one.replace(/ \S+$/, '')).sort());
      assert.equal(lines.at(-2), '8 sources, 13 errors, 4 warnings, 3 infos');
    });

    it('in JSON, with the other place of each conflict', async () => {
      const { code, stdout } = await check('--output=json', MISTAKES);
      const { ok, merged, summary, problems }: JsonReport = JSON.parse(stdout);
      assert.deepEqual({ code, ok, merged }, { code: 3, ok: false, merged: null });
      assert.deepEqual(summary, { errors: 13, warnings: 4, infos: 3 });
      assert.deepEqual(
        problems
          .map(({ kind, severity, at, other }) => {
            assert.equal(at.file, MISTAKES);
            return `${at.line}:${at.column} ${severity} ${kind} ${other?.line}:${other?.column}`;
          })
          .sort(),
        EXPECTED.map(
          ([kind, severity, line, column, , other]) =>
            `${line}:${column} ${severity} ${kind} ${other?.[0]}:${other?.[1]}`,
        ).sort(),
      );
    });

    it('in annotations for GitHub', async () => {
      const { code, stdout } = await check('--output=github', MISTAKES);
      assert.equal(code, 3);
      const annotation =
        /^::(error|warning|notice) file=([^,:]+),line=(\d+),col=(\d+),title=ip-masq-agent ([a-z0-9-]+)::.+$/;
      const found = stdout
        .trimEnd()
        .split('\n')
        .map((text) => {
          const [, level = '', file, line, column, kind] = annotation.exec(text) ?? assert.fail(text);
          assert.equal(file, MISTAKES);
          return `${line}:${column} ${level.replace('notice', 'info')} ${kind}`;
        });
      assert.deepEqual(found.sort(), FOUND);
    });

    it('in SARIF', async () => {
      const { code, stdout } = await check('--output=sarif', MISTAKES);
      assert.equal(code, 3);
      const log: SarifLog = JSON.parse(stdout);
      const found = (log.runs[0]?.results ?? []).map(({ ruleId, level, locations: [place] }) => {
        const { artifactLocation, region } = place?.physicalLocation ?? assert.fail(ruleId);
        assert.equal(artifactLocation.uri, `file://${MISTAKES}`);
        return `${region.startLine}:${region.startColumn} ${level.replace('note', 'info')} ${ruleId}`;
      });
      assert.deepEqual(found.sort(), FOUND);
    });

    it('from standard input', async () => {
      const { code, stdout } = await runCheck(['-'], { input: readFileSync(MISTAKES, 'utf8') });
      assert.equal(code, 3);
      assert.match(stdout, /^standard input:12:9: error: "10\.0\.0\.1\/8" /m);
      assert.match(stdout, /^8 sources, 13 errors, 4 warnings, 3 infos$/m);
    });
  });

  it('shows what the examples say together', async () => {
    const paths = globSync('config-*.yaml', { cwd: EXAMPLES })
      .sort()
      .map((name) => join(EXAMPLES, name));
    assert.deepEqual(await check('--strict', ...paths), {
      code: 0,
      signal: null,
      stdout: `# Merged by ip-masq-agent from ip-masq-cloud, ip-masq-operator
nonMasqueradeCIDRs:
  - 10.224.0.0/12 # ${EXAMPLES}config-cloud.yaml:15:9
  - 10.244.0.0/16 # ${EXAMPLES}config-cloud.yaml:16:9
  - 10.0.0.0/16 # ${EXAMPLES}config-cloud.yaml:17:9
  - 172.16.0.0/12 # ${EXAMPLES}config-operator.yaml:17:9
  - 192.168.0.0/16 # ${EXAMPLES}config-operator.yaml:18:9
masqueradeCIDRs:
  - 172.20.99.0/24 # ${EXAMPLES}config-operator.yaml:21:9
masqLinkLocal: true # ${EXAMPLES}config-cloud.yaml:19:20
resyncInterval: 60s # ${EXAMPLES}config-operator.yaml:29:21

IPv4: 6 ranges, 2,293,504 addresses are not masqueraded
config hash d8f0f37a869c, without flags: nodes with equal hashes have an equal config, not always equal rules
2 sources, 0 errors, 0 warnings, 0 infos
`,
      stderr: '',
    });
  });

  it('prints nothing with -q but errors and warnings', async () => {
    assert.equal((await check('-q', `${EXAMPLES}config-cloud.yaml`)).stdout, '');
    const { code, stdout } = await check('-q', MISTAKES);
    assert.equal(code, 3);
    assert.equal(stdout.match(/: error: /g)?.length, 13);
    assert.doesNotMatch(stdout, /info|^8 sources/m);
  });

  it('takes each example by itself', async () => {
    for (const name of globSync('config-*.yaml', { cwd: EXAMPLES }))
      assert.equal((await check('--strict', join(EXAMPLES, name))).code, 0, name);
  });

  it('meets the expectations of the examples', async () => {
    const paths = globSync('config-*.yaml', { cwd: EXAMPLES }).map((name) => join(EXAMPLES, name));
    const { code, stdout } = await check(`--expect=${EXAMPLES}expectations.yaml`, ...paths);
    assert.match(stdout, /, 0 infos, 6 of 6 expectations met\n$/);
    assert.equal(code, 0);
  });

  describe('an expectation that fails', () => {
    const run = async (output: string) => {
      const file = join(scratch.path, 'expect.yaml');
      await writeFile(file, '10.1.0.0/16: not masqueraded\n10.2.0.0/15: masqueraded\n');
      const result = await runCheck([`--output=${output}`, `--expect=${file}`, '-'], { input: INSIDE });
      assert.equal(result.code, 4);
      return result.stdout.replaceAll(scratch.path, 'DIR');
    };

    it('is in the text, with its line and that of the entry that decides', async () => {
      assert.equal(
        (await run('text')).split('\n\n')[1],
        `IPv4: 2 ranges, 16,842,752 addresses are not masqueraded
config hash 6fe7c16eb2a4, without flags: nodes with equal hashes have an equal config, not always equal rules
DIR/expect.yaml:2:1: error: 10.2.0.0/15 is expected to be masqueraded, but 10.2.0.0/15 is not masqueraded (10.0.0.0/8 decides) (the other: standard input:1:22); correct the sources, or the expectation
 2 | 10.2.0.0/15: masqueraded
   | ^
standard input:1:22
 1 | nonMasqueradeCIDRs: [10.0.0.0/8]
   |                      ^
1 source, 1 error, 0 warnings, 0 infos, 1 of 2 expectations met
`,
      );
    });

    it('is in the JSON, the annotations and the SARIF', async () => {
      const { ok, problems }: JsonReport = JSON.parse(await run('json'));
      assert.equal(ok, false);
      assert.partialDeepStrictEqual(problems, [
        {
          kind: 'expectation',
          at: { file: 'DIR/expect.yaml', line: 2, column: 1 },
          other: { line: 1, column: 22 },
        },
      ]);
      assert.match(
        await run('github'),
        /^::error file=DIR\/expect\.yaml,line=2,col=1,title=.* expectation::10/,
      );
      const { runs }: SarifLog = JSON.parse(await run('sarif'));
      assert.deepEqual(
        runs[0]?.results.map(({ ruleId }) => ruleId),
        ['expectation'],
      );
    });
  });

  for (const [name, args, input, code, says] of [
    ['0 for a warning', ['-'], '# nothing\n', 0, /warning: the document is empty/],
    [
      '3 for a warning that --strict makes an error',
      ['--strict', '-'],
      '# nothing\n',
      3,
      /error: the document is empty/,
    ],
    [
      '0 for IPv6 where it is enabled',
      ['--enable-ipv6', '-'],
      'masqueradeCIDRs: ["fd00::/8"]',
      0,
      /fd00::\/8/,
    ],
    ['3 for IPv6 where it is not', ['-'], 'masqueradeCIDRs: ["fd00::/8"]', 3, /:1:\d+: error: fd00::\/8 /],
    ['3 for nothing at all', ['-'], '', 3, /no source in standard input: nothing was checked/],
    ['3 for a missing file', ['DIR/none'], '', 3, /DIR\/none: error: cannot be read: ENOENT/],
    [
      '3 for a file without the right to read it',
      ['DIR/secret'],
      '',
      3,
      /DIR\/secret: error: cannot be read: EACCES/,
    ],
    [
      '3 for a missing config directory',
      ['--config-dir=DIR/none'],
      '',
      3,
      /config directory DIR\/none is missing/,
    ],
    ['0 for an empty config directory', ['--config-dir=DIR/empty'], '', 0, /built in \(RFC 1918\)/],
    [
      '3 for a source that must be there, and is not in the manifest',
      ['--require-source=ip-masq-a,ip-masq-b', '-'],
      'apiVersion: v1\nkind: ConfigMap\ndata: {ip-masq-a: "{}"}\n',
      3,
      /^error: the source ip-masq-b is not there/,
    ],
    ['2 for a name that no source can have', ['--require-source=operator', '-'], '', 2, /--require-source/],
    ['0 for promises that are kept', ['--must-not-masquerade=10.1.0.0/16', '-'], INSIDE, 0, /0 errors/],
    [
      '3 for a promise that is broken',
      ['--must-masquerade=8.8.8.8/32,10.1.0.0/16', '-'],
      INSIDE,
      3,
      /standard input:1:22: error: the promise --must-masquerade=10\.1\.0\.0\/16 is broken: /,
    ],
    [
      '2 for a promise about IPv6 without rules for IPv6',
      ['--must-masquerade=fd00::/8', '-'],
      INSIDE,
      2,
      /fd00::\/8 .*--enable-ipv6/,
    ],
    [
      '2 for promises that contradict each other',
      ['--must-masquerade=10.1.0.0/16', '--must-not-masquerade=192.168.0.0/16,10.0.0.0/8', '-'],
      INSIDE,
      2,
      /=10\.0\.0\.0\/8 contradicts --must-masquerade=10\.1\.0\.0\/16/,
    ],
    [
      '0 for a promise about packets from a listed range',
      ['--must-masquerade=8.0.0.0/8 from 10.244.0.0/16', '-'],
      'masqueradeFromCIDRs: [10.244.0.0/15]\nnonMasqueradeCIDRs: [10.0.0.0/8]\n',
      0,
      /0 errors/,
    ],
    [
      '3 for a promise about packets from anywhere where ranges are listed',
      ['--must-masquerade=8.0.0.0/8', '-'],
      'masqueradeFromCIDRs: [10.244.0.0/15]\nnonMasqueradeCIDRs: [10.0.0.0/8]\n',
      3,
      /standard input:1:23: error: the promise .* is broken: masqueradeFromCIDRs does not list 0\.0\.0\.0-/,
    ],
    [
      '3 for a destination with two ranges for its address',
      ['-'],
      'masqueradeAddresses:\n- {destination: 0.0.0.0/0, address: 198.51.100.0/24}\n- {destination: 0.0.0.0/0, address: 203.0.113.0/24}\n',
      3,
      /standard input:3:3: error: packets to 0\.0\.0\.0\/0 .*\(the other: standard input:2:3\)/,
    ],
    ['3 for an error, whatever is expected', ['--expect=DIR/good', '-'], 'x: 1', 3, /unknown key "x"/],
    [
      '2 for a file of expectations with an error',
      ['--expect=DIR/bad', '-'],
      'x: 1',
      2,
      /DIR\/bad:1:10: error: /,
    ],
    [
      '2 for such a file that is missing',
      ['--expect=DIR/none', '-'],
      INSIDE,
      2,
      /DIR\/none: error: cannot be read/,
    ],
    ['2 for such a file without an end', ['--expect=/dev/zero', '-'], INSIDE, 2, /larger than 1 MiB/],
    ['2 for an unknown output', ['--output=yaml'], '', 2, /--output/],
    ['2 for an unknown flag', ['--outptu=json', '-'], '', 2, /--output/],
  ] as const) {
    it(`ends with ${name}`, async () => {
      const dir = scratch.path;
      await mkdir(join(dir, 'empty'), { recursive: true });
      await writeFile(join(dir, 'good'), '8.8.8.8: not masqueraded\n');
      await writeFile(join(dir, 'bad'), '8.8.8.8: outside\n');
      await writeFile(join(dir, 'secret'), 'masqLinkLocal: true\n');
      await chmod(join(dir, 'secret'), 0o200);
      const result = await runCheck(
        args.map((arg) => arg.replace('DIR', dir)),
        { input },
      );
      const text = `${result.stdout}${result.stderr}`.replaceAll(dir, 'DIR');
      assert.match(text, says);
      assert.equal(result.code, code);
    });
  }

  it('prints nothing on a terminal that the terminal could take for more than text', async () => {
    const input =
      'apiVersion: v1\nkind: ConfigMap\ndata: {"ip-masq-\\e[2J\\u202e": "\\u009b1m: \\e]0;x\\a"}\n';
    for (const output of choicesOf(CHECK_FLAGS.output)) {
      const { code, stdout } = await runCheck([`--output=${output}`, '-'], { input });
      assert.equal(code, 3);
      assert.doesNotMatch(stdout, /[^\P{Cc}\n]|\p{Cf}/u);
    }
  });

  it('has no colours in a pipe', async () => assert.doesNotMatch((await check(MISTAKES)).stdout, /\u001b/));

  it('is not upset by a reader that has seen enough', async () => {
    const { file, args } = command([...LARGE, await largeConfig(scratch.path)]);
    using child = spawn(file, args, { env: {}, stdio: ['ignore', 'pipe', 'pipe'] });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      stderr += chunk;
    });
    child.stdout.once('data', () => child.stdout.destroy());
    assert.deepEqual(await once(child, 'close'), [0, null]);
    assert.equal(stderr, '');
  });

  it('keeps nothing back from a reader that is slow', async () => {
    const { stdout } = await check('--output=json', ...LARGE, await largeConfig(scratch.path));
    assert.equal(JSON.parse(stdout).merged.nonMasqueradeCIDRs.length, 20_000);
  });

  it('ends for a ConfigMap of 1 MiB with 60,000 mistakes', { timeout: 60_000 }, async () => {
    const entries = '    - 10.0.0.1/8\n'.repeat(60_000);
    const input = `apiVersion: v1\nkind: ConfigMap\ndata:\n  ip-masq-a: |\n    nonMasqueradeCIDRs:\n${entries}`;
    const { code, stdout } = await runCheck(['--cidr-limit-max=60000', '-'], { input });
    assert.equal(code, 3);
    assert.match(
      stdout,
      /^info: not reported: 59001 more errors; .*\n1 source, 1000 errors, 0 warnings, 1 info$/m,
    );
  });
});

interface JsonReport {
  readonly ok: boolean;
  readonly summary: unknown;
  readonly merged: unknown;
  readonly problems: readonly {
    readonly kind: string;
    readonly severity: string;
    readonly at: JsonPlace;
    readonly other: JsonPlace | null;
  }[];
}

interface JsonPlace {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

interface SarifLog {
  readonly runs: readonly {
    readonly results: readonly {
      readonly ruleId: string;
      readonly level: string;
      readonly locations: readonly {
        readonly physicalLocation: {
          readonly artifactLocation: { readonly uri: string };
          readonly region: { readonly startLine: number; readonly startColumn: number };
        };
      }[];
    }[];
  }[];
}

function check(...args: readonly string[]) {
  return runCheck(args);
}

function runCheck(args: readonly string[], options: RunOptions = {}, env: Environment = { PATH: '' }) {
  return run(command(args), env, options);
}

/** Without any of root's capabilities: as another user it might not even reach this checkout. */
function command(args: readonly string[]): Command {
  const words = ['check', ...args];
  if (!IS_ROOT) return { file: BINARY, args: words };
  return {
    file: SETPRIV,
    args: ['--bounding-set=-all', '--inh-caps=-all', BINARY, ...words],
  };
}

/** What a large config needs. */
const LARGE = ['--cidr-limit-max=20000'];

/** A config that makes more output than a pipe holds. */
async function largeConfig(dir: string): Promise<string> {
  const path = join(dir, 'large');
  const entries = Array.from({ length: 20_000 }, (_, index) => `  - 10.${index >> 8}.${index & 255}.0/24\n`);
  await writeFile(path, `cidrLimit: 20000\nnonMasqueradeCIDRs:\n${entries.join('')}`);
  return path;
}
