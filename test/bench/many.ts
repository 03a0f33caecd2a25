import { createBox } from '../lab/box.ts';
import { agentFlags, BINARY, metric, startAgent } from './agent.ts';
import { call, runOnce } from './calls.ts';
import { MANY_FLAGS, manyFiles, writeFiles } from './config-files.ts';
import { createNode, PLAIN_NODE } from './node.ts';
import { atMost, type BenchOptions, row, type Table, takeTurns } from './part.ts';
import { peakOfTools } from './proc.ts';

/** Reading them, and keeping them in the nftables dataplane. */
export async function* load({ rounds }: BenchOptions): AsyncIterable<Table> {
  for (const count of [10_000, 100_000]) {
    await using box = await createBox();
    await using dir = await writeFiles(manyFiles(count));
    const files = Object.keys(manyFiles(count)).map((name) => `${dir.path}/${name}`);
    const flags = [...agentFlags(dir.path, 'IPv4'), '--backend=nftables'];
    const once = await runOnce(box, call(BINARY, '--once', ...flags));
    const { bare, check } = await takeTurns(rounds(7), {
      bare: () => runOnce(box, call(process.execPath, '-e', '0')),
      check: () => runOnce(box, call(BINARY, 'check', ...MANY_FLAGS, ...files)),
    });
    const { agent } = await takeTurns(rounds(5), { agent: () => keepMany(count) });
    const bareStart = row('bare Node start', 'ms', bare.took);
    const barePeak = row('bare Node: peak memory', 'MB', bare.peak);
    yield {
      title: `${count.toLocaleString('en')} CIDRs`,
      rows: [
        bareStart,
        row('`check`: exec → exit', 'ms', check.took, {
          baseline: bareStart,
          targets: [atMost(1_500, 'ms')],
        }),
        row('`check`: CPU', 'ms', check.cpu),
        barePeak,
        row('`check`: peak memory', 'MB', check.peak, { baseline: barePeak, targets: [atMost(250, 'MB')] }),
        row('nftables, `--once`: peak memory', 'MB', [once.peak], { baseline: barePeak }),
        row('nftables: exec → first sync done, server listens', 'ms', agent.started),
        row('nftables, one more: ..data renamed → the agent says that it is done', 'ms', agent.change),
        row('nftables: idle resync, as the agent measures it', 'ms', agent.idle),
        row('nftables, one more: peak memory of nft', 'MB', agent.nft),
      ],
    };
  }
}

/** Runs the agent on a new node, and adds one CIDR, and one more. */
async function keepMany(count: number) {
  await using node = await createNode(PLAIN_NODE);
  const files = (number: number) => manyFiles(count + number);
  await using agent = await startAgent(node, { families: 'IPv4', backend: 'nftables', files });
  const change = await agent.swap(1);
  await agent.settle();
  const before = syncMs(await agent.scrape());
  await agent.resync(1);
  const idle = syncMs(await agent.scrape()) - before;
  const nft = await peakOfTools(agent.pid, () => agent.swap(2));
  return { started: agent.started, change, idle, nft };
}

function syncMs(metrics: string): number {
  return metric(metrics, 'ip_masq_agent_sync_duration_seconds_sum') * 1000;
}
