import { type Charged, runAtSize, sizes } from '../lab/sizing.ts';
import { manyFiles } from './config-files.ts';
import { atMost, type Row, row, type Table } from './part.ts';

/** The peak memory of an agent, and with the commands in its pod, at each row of the sizing table. */
export async function* sizing(): AsyncIterable<Table> {
  const rows: Row[] = [];
  for (const size of sizes())
    for (const backend of size.backends) {
      const charged: Charged[] = [];
      for await (const one of runAtSize(size, backend, manyFiles)) charged.push(one);
      const what = `${size.cidrs.toLocaleString('en')} CIDRs, ${backend}`;
      const of = (peak = 0) => [[peak / 2 ** 20], { targets: [atMost(size.limitMiB, 'MiB')] }] as const;
      rows.push(row(`${what}: start and change`, 'MiB', ...of(charged[0]?.peak)));
      const { peak, kills } = charged.at(-1) ?? {};
      rows.push(row(`${what}: and each command, ${kills} killed`, 'MiB', ...of(peak)));
    }
  yield { title: 'memory of one cgroup', rows };
}
