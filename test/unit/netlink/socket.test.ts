import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Conntrack } from '../../../lib/netlink/conntrack.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { native } from '../../../lib/netlink/native.ts';
import { openAddressWatch, openChangeWatch } from '../../../lib/netlink/watch.ts';

const CALLS = ['socket', 'bind', 'getsockname', 'setsockopt'] as const;
const nothing = () => {};

async function readFlows(): Promise<void> {
  using conntrack = new Conntrack();
  await conntrack.flows(undefined, nothing, nothing);
}

for (const [name, use] of [
  ['a watch of nf_tables', async () => openChangeWatch([])[Symbol.dispose]()],
  ['a watch of addresses', async () => openAddressWatch()[Symbol.dispose]()],
  ['a reading of flows', readFlows],
] as const) {
  it(`${name} leaves no socket open, whichever call the kernel refuses`, async ({ mock }) => {
    const functions = native();
    const open = new Set<number>();
    let refused = 0;
    let made = 0;
    for (const call of CALLS) {
      const original = functions[call];
      mock.method(functions, call, (...values: readonly (number | Uint8Array)[]) => {
        // If SO_RCVBUFFORCE is refused, another size is asked for.
        if (call !== 'setsockopt' || values[2] !== 33) made += 1;
        const result = made === refused ? -1 : original(...values);
        if (call === 'socket' && result >= 0) open.add(result);
        return result;
      });
    }
    const { close } = functions;
    mock.method(functions, 'close', (descriptor: number) => {
      open.delete(descriptor);
      return close(descriptor);
    });
    do {
      refused += 1;
      made = 0;
      const failure: unknown = await use().catch((error: unknown) => error);
      assert.deepEqual([...open], [], `call ${refused} was refused`);
      if (made >= refused) assert.ok(failure instanceof NetlinkError, String(failure));
    } while (made >= refused);
    assert.ok(refused > CALLS.length, `only ${refused} calls`);
  });
}
