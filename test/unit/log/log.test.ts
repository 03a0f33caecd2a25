import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const LOG = fileURLToPath(new URL('../../../lib/log/log.ts', import.meta.url));

/** What a process writes that logs by the script and then dies at once. */
async function logged(
  format: string,
  verbosity: number,
  script: string,
  isColoured = false,
): Promise<string> {
  const code = `
    import { createLogger } from ${JSON.stringify(LOG)};
    const log = createLogger(${JSON.stringify(format)}, ${verbosity}, ${isColoured});
    ${script}
    process.kill(process.pid, 'SIGKILL');`;
  const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', code]);
  return run.then(
    ({ stderr }) => stderr,
    ({ stderr }: { stderr: string }) => stderr,
  );
}

describe('the log', { concurrency: true }, () => {
  it('loses nothing when the process dies', async () => {
    const text = await logged('json', 2, 'for (let i = 0; i < 5000; i += 1) log.info({ i }, "line");');
    const lines = text.trimEnd().split('\n');
    assert.equal(lines.length, 5000);
    assert.equal(JSON.parse(lines.at(-1) ?? '').i, 4999);
  });

  it('comes whole to a reader that stalls, without a further line', async () => {
    const code = `
      import { createLogger } from ${JSON.stringify(LOG)};
      const log = createLogger('json', 2);
      for (let i = 0; i < 1000; i += 1) log.info('x'.repeat(200) + i);
      console.log('the reader has stalled');
      setTimeout(() => {}, 60_000);`;
    const args = ['--input-type=module', '-e', code];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    await once(child.stdout, 'data');
    let text = '';
    for await (const chunk of child.stderr.setEncoding('utf8')) {
      text += chunk;
      if (text.endsWith('999"}\n')) break;
    }
    child.kill('SIGKILL');
    assert.equal(text.trimEnd().split('\n').length, 1000);
  });

  for (const [verbosity, levels] of [
    [0, ['info', 'warn']],
    [2, ['info', 'warn']],
    [3, ['debug', 'info', 'warn']],
  ] as const) {
    it(`shows ${levels} with --v=${verbosity}`, async () => {
      const text = await logged('json', verbosity, 'log.debug("x"); log.info("x"); log.warn("x");');
      const shown = text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).level);
      assert.deepEqual(shown, levels);
    });
  }

  /** As it stands between quotes in a script. */
  const HOSTILE = 'a\\nb\\u001b[2J\\u009b2J\\u202e\\u2028\\u{e0001}\\ud800';

  it('in JSON keeps hostile text as data', async () => {
    const text = await logged('json', 2, `log.info({ "${HOSTILE}": "${HOSTILE}" }, "${HOSTILE}");`);
    assert.doesNotMatch(text.trimEnd(), /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
    assert.ok(JSON.parse(text).msg.startsWith('a\nb\u001b[2J'));
  });

  it('as text keeps hostile text on its line', async () => {
    const script = `log.info({ "${HOSTILE}": "${HOSTILE}", frame: ["${HOSTILE}"] }, "${HOSTILE}");`;
    const text = await logged('text', 2, script);
    assert.equal(text.trimEnd().split('\n').length, 2);
    assert.doesNotMatch(text.replaceAll('\n', ''), /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
  });

  it('as text is time, level, message, fields, then the frame, verdicts and rules', async () => {
    const text = await logged(
      'text',
      2,
      'log.warn({ family: "IPv4", n: [1], rules: ["r"], verdicts: ["v"], frame: [" 1 | x"] }, "a message");',
    );
    assert.match(
      text,
      /^\d\d:\d\d:\d\d\.\d{3} WARN {2}a message family=IPv4 n=\[1\]\n {3}1 \| x\n {2}v\n {2}r\n$/,
    );
  });

  it('has the levels that matter in colour if it is asked to, in text only', async () => {
    const script = 'log.info("a"); log.warn({ b: "\\u001b" }, "b"); log.fatal("c");';
    const text = await logged('text', 2, script, true);
    assert.deepEqual(
      text.split('\n').map((line) => line.slice('10:20:30.123 '.length)),
      ['INFO  a', '\u001b[33mWARN \u001b[39m b b="\\u001b"', '\u001b[31mFATAL\u001b[39m c', ''],
    );
    assert.doesNotMatch(await logged('json', 2, script, true), /\u001b/);
  });
});
