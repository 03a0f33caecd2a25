import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Metrics } from '../../../lib/status/metrics.ts';
import { Recorder } from '../../../lib/status/recorder.ts';

describe('the recorder', () => {
  it('keeps what happens until there are metrics, and hands it over in order', () => {
    const recorder = new Recorder();
    const seen: string[] = [];
    recorder.record(() => seen.push('first'));
    recorder.record(() => seen.push('second'));
    assert.equal(seen.length, 0);
    recorder.attach(new Metrics());
    recorder.record(() => seen.push('third'));
    assert.deepEqual(seen, ['first', 'second', 'third']);
  });

  it('drops everything once told that nobody will ask', () => {
    const recorder = new Recorder();
    const never = () => assert.fail('recorded');
    recorder.record(never);
    recorder.discard();
    recorder.record(never);
    recorder.attach(new Metrics());
  });
});
