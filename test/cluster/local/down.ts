// Takes a cluster down that `up.ts` brought up, and removes what one left that was killed: `down.ts [DIRECTORY]`.
import { resolve } from 'node:path';
import { stopCluster } from './cluster.ts';
import { PLAYGROUND } from './options.ts';

const [, , directory = PLAYGROUND] = process.argv;
await stopCluster(resolve(directory));
