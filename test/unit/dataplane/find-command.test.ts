import assert from 'node:assert/strict';
import { it } from 'node:test';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { ToolResult } from '../../../lib/dataplane/host.ts';
import { findCommand } from '../../../lib/dataplane/iptables/detect.ts';

it('iptables is looked for again after a failure, and not after it was found', async () => {
  const exhausted = new DataplaneError('exhausted', 'cannot start iptables-nft', 'raise the limit');
  const version = { code: 0, stdout: 'iptables v1.8.9 (nf_tables)\n', stderr: '' };
  const answers: (ToolResult | DataplaneError)[] = [exhausted, version];
  const host = {
    async run() {
      const answer = answers.shift();
      if (answer === undefined || answer instanceof DataplaneError) throw answer;
      return answer;
    },
    readText: async () => undefined,
  };
  await assert.rejects(findCommand(host, 'nft'), exhausted);
  const found = { version: '1.8.9', mode: 'nft', suffix: '-nft' };
  for (let search = 0; search < 2; search += 1) assert.deepEqual(await findCommand(host, 'nft'), found);
});
