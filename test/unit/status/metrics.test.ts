import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { METRIC_PREFIX, METRICS, METRICS_TYPE, Metrics } from '../../../lib/status/metrics.ts';
import { UNPRINTABLE } from '../config/support.ts';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

describe('the metrics', () => {
  it('of the process are its start alone, and none are of Node.js', async () => {
    const lines = samples((await new Metrics().text()).split('\n'));
    const [[name, start] = ['', 0], ...more] = lines
      .filter((line) => /^(?:process|nodejs)_/.test(line))
      .map(pair);
    assert.deepEqual([name, more], ['process_start_time_seconds', []]);
    assert.ok(Math.abs(start + performance.now() / 1000 - Date.now() / 1000) < 60, `started ${start}`);
  });

  it('of the table are all exposed, with type and help', async () => {
    const body = await new Metrics().text();
    assert.match(METRICS_TYPE, /^text\/plain; version=0\.0\.4/);
    for (const [name, definition] of Object.entries(METRICS)) {
      assert.ok(body.includes(`# HELP ${METRIC_PREFIX}${name} ${definition.help}\n`), name);
      assert.ok(body.includes(`# TYPE ${METRIC_PREFIX}${name} ${definition.type}\n`), name);
    }
  });

  it('of the table are all given a value somewhere', () => {
    const files = globSync(`${ROOT}{cmd,lib}/**/*.ts`).filter((file) => !file.endsWith('/metrics.ts'));
    const code = files.map((file) => readFileSync(file, 'utf8')).join('');
    // A gauge that is replaced by nothing has no value.
    const given = code.matchAll(/\.(?:set|setOnly|add|observe|replace)\(\s*'(\w+)',(?!\s*\[\]\))/g);
    const names = new Set([...given].map(([, name]) => name));
    const unused = Object.keys(METRICS).filter((name) => !names.has(name));
    assert.deepEqual(unused, []);
  });

  it('of the table are all named in some test', () => {
    const tests = globSync(`${ROOT}test/**/*.test.ts`).map((file) => readFileSync(file, 'utf8'));
    const text = tests.join('');
    const isNamed = (name: string) =>
      new RegExp(`\\b(${METRIC_PREFIX}|_)?${name}(_(count|sum))?\\b`).test(text);
    assert.deepEqual(
      Object.keys(METRICS).filter((name) => !isNamed(name)),
      [],
    );
  });

  it('have labels that cannot control a terminal', async () => {
    const metrics = new Metrics();
    const file = 'ip-masq-\u001b]0;x\u0007\u009b31m\u202e';
    metrics.replace('config_file_info', [{ labels: { file }, value: 1 }]);
    metrics.add('not_masqueraded_connections_total', { family: 'IPv4', file });
    const lines = async () => (await metrics.text()).split('\n').filter((line) => /file="/.test(line));
    assert.equal((await lines()).length, 2);
    for (const line of await lines()) {
      assert.doesNotMatch(line, UNPRINTABLE);
      // In this format, a backslash that is not one of \\n, \\" and \\\\ is an error.
      assert.match(line, /"ip-masq-\\\\x1b\]0;x/);
    }
    metrics.clear('not_masqueraded_connections_total');
    assert.equal((await lines()).length, 1);
  });

  it('have no value that nobody has measured', async () => {
    const measured = samples(ownLines(await new Metrics().text())).map((line) => pair(line)[0]);
    const gauges = Object.entries(METRICS).filter(([, { type }]) => type === 'gauge');
    for (const [name] of gauges) assert.ok(!measured.includes(METRIC_PREFIX + name), name);
  });

  it('replace what they have said of other labels', async () => {
    const metrics = new Metrics();
    metrics.set('config_info', { hash: 'a' }, 1);
    metrics.replace('config_info', [{ labels: { hash: 'b' }, value: 1 }]);
    const infos = samples(ownLines(await metrics.text())).filter((line) => line.includes('config_info'));
    assert.deepEqual(infos, ['ip_masq_agent_config_info{hash="b"} 1']);
  });
});

function ownLines(body: string): readonly string[] {
  return body.split('\n').filter((line) => line.includes(METRIC_PREFIX));
}

function pair(line: string): readonly [name: string, value: number] {
  const [name = '', value] = line.split(' ');
  return [name, Number(value)];
}

function samples(lines: readonly string[]): readonly string[] {
  return lines.filter((line) => !line.startsWith('#'));
}
