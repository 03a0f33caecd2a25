import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate as soon } from 'node:timers/promises';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import { iptablesDataplane } from '../../../lib/dataplane/iptables/iptables.ts';
import { inTurns } from '../../../lib/dataplane/iptables/legacy.ts';

const OPTIONS = { mode: 'legacy', chain: 'X', randomFully: true, toPorts: [] } as const;

/** A machine whose tools take a while, and how many of them have run at once at the most. */
function slowHost() {
  let running = 0;
  let most = 0;
  const host: Host = {
    async run(_, args) {
      running += 1;
      most = Math.max(most, running);
      await soon();
      running -= 1;
      const chain = args.at(-1) ?? '';
      return {
        code: 0,
        stdout: `-N ${chain}\n-P ${chain} ACCEPT\nChain ${chain} (0 references)\n`,
        stderr: '',
      };
    },
    readText: async () => '',
  };
  return { host, most: () => most };
}

describe('the tools of iptables', () => {
  it('run one after the other in legacy mode, whoever runs them', async () => {
    const { host, most } = slowHost();
    const detected = { mode: 'legacy', suffix: '-legacy', version: '1.8.9', reason: 'a test' } as const;
    const [dataplane, another] = [1, 2].map(() => iptablesDataplane(detected, OPTIONS, host));
    await Promise.all([
      dataplane?.observe('IPv4'),
      dataplane?.observe('IPv6'),
      dataplane?.count({ family: 'IPv4', from: [], entries: [] }),
      another?.observe('IPv4'),
    ]);
    assert.equal(most(), 1);
  });

  it('get their turn also behind one that fails', async () => {
    const busy = new DataplaneError('busy', 'locked', 'wait');
    const results = ['bad', 'good'];
    const host = inTurns(
      {
        run: async () => {
          if (results.shift() === 'bad') throw busy;
          return { code: 0, stdout: 'good', stderr: '' };
        },
        readText: async () => '',
      },
      'legacy',
    );
    const [first, second] = await Promise.allSettled([host.run('a', []), host.run('b', [])]);
    assert.deepEqual(first, { status: 'rejected', reason: busy });
    assert.equal(second.status === 'fulfilled' && second.value.stdout, 'good');
  });
});
