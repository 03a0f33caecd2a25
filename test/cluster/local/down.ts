// Takes the cluster of `playground.ts` down, and removes what one left that was killed.
import { stopCluster } from './cluster.ts';
import { PLAYGROUND } from './options.ts';

await stopCluster(PLAYGROUND);
