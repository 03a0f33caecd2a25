// Holds a cluster as a test does: `hold-cluster.ts OPTIONS`, the options as JSON. It prints the environment, as one line of JSON,
// and takes the cluster down when its input ends.
import { startCluster } from './cluster.ts';

await using cluster = await startCluster(JSON.parse(process.argv[2] ?? ''));
console.log(JSON.stringify(cluster.env));
for await (const _ of process.stdin);
