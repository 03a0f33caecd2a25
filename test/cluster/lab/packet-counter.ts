/**
 * Counts the packets that ordinary pods send: by the name of the pod, which is in them, and by their source. It prints the counts
 * for each line of its standard input, and ends with it. Usage: node packet-counter.ts ADDRESS PORT
 */
import { createSocket } from 'node:dgram';
import { createInterface } from 'node:readline';

/** The packets of one pod. */
export interface Count {
  /** The source of the first one. */
  readonly first: string;
  /** How many came from each source. */
  readonly sources: Record<string, number>;
}

/** By the names of pods. */
export type Counts = Readonly<Record<string, Count>>;

function count(address: string, port: number): void {
  const counts: Record<string, Count> = {};
  const socket = createSocket('udp4', (message, { address: source }) => {
    const pod = message.toString();
    counts[pod] ??= { first: source, sources: {} };
    const { sources } = counts[pod];
    sources[source] = (sources[source] ?? 0) + 1;
  });
  socket.bind(port, address);
  createInterface(process.stdin)
    .on('line', () => console.log(JSON.stringify(counts)))
    .on('close', () => process.exit());
}

if (import.meta.main) count(process.argv[2] ?? '', Number(process.argv[3]));
