import assert from 'node:assert/strict';
import { it } from 'node:test';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { ToolResult } from '../../../lib/dataplane/host.ts';
import { findCommand } from '../../../lib/dataplane/iptables/detect.ts';

it('the version of iptables is asked for once at a time, and again after a failure', async () => {
  let calls = 0;
  const exhausted = new DataplaneError(
    'exhausted',
    'cannot start iptables-nft',
    'raise the limit of processes',
  );
  const answers: (ToolResult | DataplaneError)[] = [
    exhausted,
    { code: 0, stdout: 'iptables v1.8.9 (nf_tables)\n', stderr: '' },
  ];
  const host = {
    async run() {
      const answer = answers[calls];
      calls += 1;
      if (answer === undefined || answer instanceof DataplaneError) throw answer;
      return answer;
    },
    readText: async () => undefined,
  };
  await assert.rejects(findCommand(host, 'nft'), exhausted);
  const found = { version: '1.8.9', mode: 'nft', suffix: '-nft' };
  assert.deepEqual(await Promise.all([findCommand(host, 'nft'), findCommand(host, 'nft')]), [found, found]);
  assert.deepEqual(await findCommand(host, 'nft'), found);
  assert.equal(calls, 2);
});
