import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { State } from '../../../lib/agent/state.ts';
import { METRIC_PREFIX, METRICS } from '../../../lib/status/metrics.ts';
import { METRICS_TYPE, Metrics } from '../../../lib/status/registry.ts';
import { hashOf } from '../../../lib/status/status-json.ts';
import { loadedOf, mergedOf, UNPRINTABLE } from '../config/support.ts';
import { ABOUT, stateOf } from './support.ts';

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

  it('have labels that cannot control a terminal', async () => {
    const metrics = new Metrics();
    const file = 'ip-masq-\u001b]0;x\u0007\u009b31m\u202e';
    metrics.setGauges(using({ [file]: '' }), ABOUT);
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
    metrics.setGauges(using({ a: 'masqLinkLocal: true\n' }), ABOUT);
    const last = using({ a: 'masqLinkLocal: false\n' });
    metrics.setGauges(last, ABOUT);
    const infos = samples(ownLines(await metrics.text())).filter((line) => line.includes('config_info'));
    assert.deepEqual(infos, [`ip_masq_agent_config_info{hash="${hashOf(last)}"} 1`]);
  });
});

/** A state in which a config is in use. */
function using(texts: Readonly<Record<string, string>>): State {
  return stateOf({ inUse: loadedOf(mergedOf(texts)) });
}

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
