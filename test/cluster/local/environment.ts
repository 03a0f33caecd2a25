import { dirname } from 'node:path';
import type { Environment } from '../../lab/run.ts';

/** For programs of the machine and of the cluster. What else the caller has in its environment, a proxy above all, must not reach them. */
export function toolEnvironment(more: Readonly<Record<string, string | undefined>> = {}): Environment {
  const path = [
    dirname(process.execPath),
    process.env['PATH'],
    '/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin',
  ];
  const given = Object.entries(more).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
  return {
    ...Object.fromEntries(given),
    PATH: path.filter((part) => part !== undefined).join(':'),
    LC_ALL: 'C',
  };
}
