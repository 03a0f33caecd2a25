import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setImmediate as soon } from 'node:timers/promises';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import { iptablesDataplane } from '../../../lib/dataplane/iptables/iptables.ts';

const OPTIONS = { mode: 'legacy', chain: 'X', randomFully: true, toPorts: [] } as const;
const DETECTED = { mode: 'legacy', suffix: '-legacy', version: '1.8.9', reason: 'a test' } as const;

it('the tools of iptables run one after the other in legacy mode, whoever runs them, also behind one that fails', async () => {
  let [started, running, most] = [0, 0, 0];
  const host: Host = {
    async run(_, args) {
      started += 1;
      if (started === 1) throw new DataplaneError('busy', 'locked', 'wait');
      running += 1;
      most = Math.max(most, running);
      await soon();
      running -= 1;
      const chain = args.at(-1) ?? '';
      const stdout = `-N ${chain}\n-P ${chain} ACCEPT\nChain ${chain} (0 references)\n`;
      return { code: 0, stdout, stderr: '' };
    },
    readText: async () => '',
  };
  const [dataplane, another] = [1, 2].map(() => iptablesDataplane(DETECTED, OPTIONS, host));
  const ended = await Promise.allSettled([
    dataplane?.observe('IPv4'),
    dataplane?.observe('IPv6'),
    dataplane?.count({ family: 'IPv4', from: [], entries: [] }),
    another?.observe('IPv4'),
  ]);
  assert.equal(ended.filter(({ status }) => status === 'rejected').length, 1);
  assert.equal(most, 1);
});
