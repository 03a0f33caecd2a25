import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { CHECK_FLAGS } from '../../cmd/ip-masq-agent/command-flags.ts';
import { type Command, type RunOptions, run } from '../lab/run.ts';
import { IS_ROOT } from '../lab/user.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../lab/volume.ts';
import { BINARY } from './support.ts';

const EXAMPLES = fileURLToPath(new URL('../../examples/', import.meta.url));
const SETPRIV = '/usr/bin/setpriv';
/** For a shell. */
const PROGRAMS = { PATH: '/usr/bin:/bin' };

describe('check, without root, kernel tools and PATH', () => {
  let scratch: TemporaryDirectory;
  before(async () => {
    scratch = await temporaryDirectory();
  });
  after(() => scratch[Symbol.asyncDispose]());

  it('shows what the examples say together, and that their assertions hold', async () => {
    const paths = globSync('config-*.yaml', { cwd: EXAMPLES })
      .sort()
      .map((name) => join(EXAMPLES, name));
    assert.deepEqual(await check('--strict', `--expect=${EXAMPLES}assertions.txt`, ...paths), {
      code: 0,
      signal: null,
      stdout: `# Merged by ip-masq-agent from ip-masq-cloud, ip-masq-operator
nonMasqueradeCIDRs:
  - 10.224.0.0/12 # ${EXAMPLES}config-reconciled.yaml:15:9
  - 10.244.0.0/16 # ${EXAMPLES}config-reconciled.yaml:16:9
  - 172.16.0.0/12 # ${EXAMPLES}config-custom.yaml:17:9
  - 192.168.0.0/16 # ${EXAMPLES}config-custom.yaml:18:9
masqueradeCIDRs:
  - 172.20.99.0/24 # ${EXAMPLES}config-custom.yaml:21:9
masqLinkLocal: true # ${EXAMPLES}config-reconciled.yaml:18:20
resyncInterval: 1m0s # ${EXAMPLES}config-custom.yaml:31:21

config hash a198830dd794, without flags: nodes with equal hashes have an equal config, not always equal rules
2 config files, 0 errors, 0 warnings, 0 infos
`,
      stderr: '',
    });
  });

  it('takes the directory of v1', async () => {
    const { code, stdout } = await check('--strict', join(EXAMPLES, 'agent-config/config'));
    assert.match(stdout, /\n1 config file, 0 errors, 0 warnings, 0 infos\n$/);
    assert.equal(code, 0);
  });

  it('ends with exit code 3 for a file without the right to read it', async () => {
    const secret = join(scratch.path, 'secret');
    await writeFile(secret, 'masqLinkLocal: true\n', { mode: 0o200 });
    const { code, stdout } = await check(secret);
    assert.match(stdout, /\/secret: error: cannot be read: EACCES/);
    assert.equal(code, 3);
  });

  it('prints nothing on a terminal that the terminal could take for more than text', async () => {
    const input =
      'apiVersion: v1\nkind: ConfigMap\ndata: {"ip-masq-\\e[2J\\u202e": "\\u009b1m: \\e]0;x\\a"}\n';
    for (const output of CHECK_FLAGS.output.kind.choices ?? assert.fail()) {
      const { code, stdout } = await runCheck([`--output=${output}`, '-'], { input });
      assert.equal(code, 3);
      assert.doesNotMatch(stdout, /[^\P{Cc}\n]|\p{Cf}/u);
    }
  });

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

  it('ends with exit code 1 if its output cannot be written', async () => {
    const { file, args } = command([join(EXAMPLES, 'config-reconciled.yaml')]);
    const { code, stderr } = await run(
      { file: 'sh', args: ['-c', '"$@" > /dev/full', 'sh', file, ...args] },
      PROGRAMS,
    );
    assert.match(stderr, /^ip-masq-agent: cannot write to standard output: .*ENOSPC.*\n$/);
    assert.equal(code, 1);
  });
});

function check(...args: readonly string[]) {
  return runCheck(args);
}

function runCheck(args: readonly string[], options: RunOptions = {}) {
  return run(command(args), { PATH: '' }, options);
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
