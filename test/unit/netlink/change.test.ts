import assert from 'node:assert/strict';
import { it } from 'node:test';
import { partAt, requestOf } from '../../../lib/netlink/change.ts';
import { writeMessage } from '../../../lib/netlink/messages.ts';

it('the place in a rule that the kernel refuses is the name of an expression there', () => {
  const expressions = [
    { name: 'fib', to: 1, result: 3, flags: 2 },
    { name: 'lookup', set: 'masq', from: 1 },
    { name: 'masq' },
  ] as const;
  const rule = { kind: 'add rule', family: 'IPv4', table: 't', chain: 'c', expressions } as const;
  for (const comment of [undefined, 'fib']) {
    const change = { ...rule, comment };
    const bytes = writeMessage(requestOf(change), 0);
    const places = expressions.map(({ name }) => {
      // Before the name are the headers of the list's element and of the name.
      const header = Buffer.from([name.length + 5, 0, 1, 0]);
      return bytes.lastIndexOf(Buffer.concat([header, Buffer.from(`${name}\0`)])) - 4;
    });
    assert.deepEqual(
      places.map((place) => partAt(change, place)),
      expressions.map(({ name }) => name),
    );
    // The message itself, the name of the table, and the names of the expressions.
    for (const place of [0, 20, ...places.map((one) => one + 4)])
      assert.equal(partAt(change, place), undefined);
  }
});
