import assert from 'node:assert/strict';
import { it } from 'node:test';
import { statusText } from '../../../lib/status/status-text.ts';
import { mergedOf } from '../config/support.ts';
import { ABOUT, stateOf, synced } from './support.ts';

it('the answer for people has the lines of status, and what else the agent has read, each on a line of its own', () => {
  const lines = ['10.0.0.0/8: cannot be told (\u001b[0m) → masqueraded'];
  const lastVerdicts = { summary: 'the old verdict of 1 address cannot be told', lines, at: 0 };
  const config = mergedOf({ 'a\nb': 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8]\n' });
  const flows = { at: 0, examples: ['tcp 10.1.1.1'], portUsage: undefined } as const;
  const counts = [{ family: 'IPv4', verdict: 'masqueraded', since: 'after', flows: 2 }] as const;
  const known = { flows: { ...flows, counts }, suspects: { suspects: ['1. Docker'], unread: [] } };
  const text = statusText({ ...synced(config, { lastVerdicts }), ...known }, ABOUT);
  assert.match(text, /^ip-masq-agent \S+: the rules are in sync\ndataplane: .*\nconfig: \w+ \(a\\x0ab\)\n/);
  assert.match(
    text,
    /\nIPv4: last sync .*\n\nconflicts and checks:\n {2}a\\x0ab:1:34: info: .*\n\nlast change/,
  );
  assert.match(
    text,
    /address cannot be told\n {2}10\.0\.0\.0\/8: cannot be told \(\\x1b\[0m\) → masqueraded\n/,
  );
  assert.match(
    text,
    /\nconnections against the config:\n {2}.*: 2 connections: .*\n {2}tcp 10\.1\.1\.1\n\nwhat else .*:\n {2}1\. Docker\n$/,
  );
  assert.match(statusText(stateOf(), ABOUT), /\n {2}not read\n(?:.*\n)*.*not read: not read yet\n$/);
});
