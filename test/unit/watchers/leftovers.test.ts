import assert from 'node:assert/strict';
import { it } from 'node:test';
import { pino } from 'pino';
import type { Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import { Leftovers } from '../../../lib/watchers/leftovers.ts';

const TABLE = 'table ip ip-masq-agent {\n\tcomment "ip-masq-agent: kept by ip-masq-agent"\n}\n';

it('the removal of leftovers ends without an error if the agent stops while it waits to try again', async () => {
  const stop = new AbortController();
  const logged: string[] = [];
  const log = pino({}, { write: (line: string) => void logged.push(line) });
  const host: Host = {
    async run(file, args) {
      if (file !== 'nft') throw new DataplaneError('missing', `${file} is not installed`, 'install it');
      if (args[0] === '--version') return { code: 0, stdout: 'nftables v1.0.6', stderr: '' };
      if (args[0] === 'list') return { code: 0, stdout: TABLE, stderr: '' };
      // The table changes in between at each attempt, and the agent is stopped in the pause after the first one.
      setImmediate(() => stop.abort());
      return { code: 1, stdout: '', stderr: 'Error: No such file or directory' };
    },
    readText: async () => '',
  };
  const options = { backend: 'iptables', mode: 'nft', chain: 'X', randomFully: true, toPorts: [] } as const;
  const used = { name: 'iptables' } as Dataplane;
  const failure = await new Leftovers(options, host, log, stop.signal).removeOnce(used, []);
  assert.deepEqual([failure, logged], [undefined, []]);
});
