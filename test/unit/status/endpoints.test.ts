import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Knowledge } from '../../../lib/agent/state.ts';
import { routes } from '../../../lib/status/endpoints.ts';
import { LIMITS } from '../../../lib/status/limits.ts';
import { Metrics } from '../../../lib/status/registry.ts';
import { ABOUT } from './support.ts';

describe('answers that are equal', () => {
  it('are made at most once a second for /metrics', async () => {
    const { ask, metrics } = create();
    const text = metrics.text.bind(metrics);
    let made = 0;
    metrics.text = () => {
      made += 1;
      return text();
    };
    const start = performance.now();
    await Promise.all(Array.from({ length: 400 }, ask['/metrics']));
    // Also a short while can begin in one second and end in the next.
    const seconds = 2 + Math.floor((performance.now() - start) / LIMITS.sharedAnswerMs);
    assert.ok(made <= seconds, `made ${made} times`);
  });
});

it('/statusz says before the first round what is not known yet', async () => {
  const { body } = await create().ask['/statusz']();
  assert.match(
    String(body),
    /: the rules are not in sync: sync IPv4: .*\ndataplane: not found yet\nconfig: none that is valid yet\nIPv4: last sync none yet, no change yet\n/,
  );
});

function create() {
  const metrics = new Metrics();
  const ask = routes({
    ...ABOUT,
    agent: new Knowledge(),
    metrics,
    configJson: () => '',
  });
  return { ask, metrics };
}
