/** Changes a table of its own over netlink, so many times a second and for so many seconds; prints how often it did. */
import { setTimeout as delay } from 'node:timers/promises';
import { NfTables } from '../../lib/netlink/nf-tables.ts';

const [rate = 0, seconds = 0] = process.argv.slice(2).map(Number);
using tables = new NfTables();
const element = { family: 'IPv4', table: 'storm', set: 's', ranges: [{ first: 1n, last: 1n }] } as const;
const began = performance.now();
let count = 0;
for (let now = began; now < began + seconds * 1000; now = performance.now()) {
  for (; count < (rate * (now - began)) / 1000; count += 1)
    await tables.commit([{ kind: count % 2 === 0 ? 'add elements' : 'flush set', ...element }]);
  await delay(1);
}
console.log(count);
