import { type Charged, runAtSize, sizes } from '../lab/sizing.ts';
import { manyFiles } from './config-files.ts';
import type { Row, Table } from './part.ts';

/** The peak memory of an agent, and with the commands in its pod, at each row of the sizing table. */
export async function* sizing(): AsyncIterable<Table> {
  const rows: Row[] = [];
  for (const size of sizes())
    for (const backend of size.backends) {
      const charged: Charged[] = [];
      for await (const one of runAtSize(size, backend, manyFiles)) charged.push(one);
      const what = `${size.cidrs.toLocaleString('en')} CIDRs, ${backend}`;
      const mebibytes = (peak = 0) => ({ unit: `of ${size.limitMiB} MiB`, samples: [peak / 2 ** 20] });
      rows.push({ name: `${what}: start and change`, ...mebibytes(charged[0]?.peak) });
      const { peak, kills } = charged.at(-1) ?? {};
      rows.push({ name: `${what}: and each command, ${kills} killed`, ...mebibytes(peak) });
    }
  yield { title: 'memory of one cgroup', rows };
}
