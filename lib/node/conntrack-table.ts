/** How full the table of connection tracking of this network namespace is. */
export interface ConntrackTable {
  readonly entries: number;
  readonly most: number;
  /** Connections that the kernel has refused, or forgotten early, because the table was full, since it exists. */
  readonly dropped: number;
}

/** How long entries live after their last packet on this node, in seconds, as sysctl(8) calls them. */
export async function entryTimeouts(
  protocol: 'tcp' | 'udp' | 'sctp' | undefined,
  readText: (path: string) => Promise<string | undefined>,
): Promise<Readonly<Record<string, number>>> {
  const names = TIMEOUTS.filter((name) => protocol === undefined || name.startsWith(protocol));
  const texts = names.map((name) => readText(`/proc/sys/net/netfilter/nf_conntrack_${name}`));
  const seconds = (await Promise.all(texts)).map((text) => (text === undefined ? Number.NaN : Number(text)));
  const read = names.map((name, index) => [name, seconds[index] ?? Number.NaN] as const);
  return Object.fromEntries(read.filter(([, value]) => value >= 0));
}

const TIMEOUTS = [
  ...['tcp_timeout_established', 'tcp_timeout_time_wait', 'udp_timeout', 'udp_timeout_stream'],
  'sctp_timeout_established',
];

/** Reads it from /proc; undefined if connection tracking is not loaded, or has no limit. */
export async function conntrackTable(
  readText: (path: string) => Promise<string | undefined>,
): Promise<ConntrackTable | undefined> {
  const numberIn = async (name: string) =>
    Number(await readText(`/proc/sys/net/netfilter/nf_conntrack_${name}`));
  const [entries, most] = [await numberIn('count'), await numberIn('max')];
  if (!(entries >= 0 && most > 0)) return undefined;
  // A line of names, and for each CPU a line of hexadecimal numbers.
  const text = (await readText('/proc/net/stat/nf_conntrack')) ?? '';
  const [names = [], ...cpus] = text
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  const columns = ['drop', 'early_drop'].map((name) => names.indexOf(name));
  const counts = cpus.flatMap((values) =>
    columns.map((column) => Number.parseInt(values[column] ?? '0', 16)),
  );
  return { entries, most, dropped: counts.reduce((sum, count) => sum + count, 0) };
}
