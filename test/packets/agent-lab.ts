import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { buildInfo } from '../../cmd/ip-masq-agent/build-info.ts';
import { syncs } from '../../lib/agent/loop.ts';
import { Triggers } from '../../lib/agent/triggers.ts';
import { DEFAULT_LIMITS } from '../../lib/config/limits.ts';
import { usableSourceAddresses } from '../../lib/node/own-addresses.ts';
import { routes } from '../../lib/status/endpoints.ts';
import { Metrics } from '../../lib/status/metrics.ts';
import { StatusObserver } from '../../lib/status/observer.ts';
import { PacketCounts } from '../../lib/status/packet-counts.ts';
import { Recorder } from '../../lib/status/recorder.ts';
import { serve } from '../../lib/status/server.ts';
import { eventually } from '../e2e/support.ts';
import { FAMILIES } from '../kernel/support.ts';
import { createBox } from '../lab/box.ts';
import { type HeldHost, startHost } from '../lab/host.ts';
import { createNetwork, type Network } from '../lab/network.ts';
import { type Files, ProjectedVolume, temporaryDirectory } from '../lab/volume.ts';
import { type DataplaneKind, openDataplane } from './support.ts';

/** An agent of this process, whose rules are in a box, and for whose counters time passes as a test wants. */
export interface AgentLab extends AsyncDisposable {
  readonly network: Network;
  readonly host: HeldHost;
  readonly volume: ProjectedVolume;
  /** What makes the agent sync. */
  readonly triggers: Triggers;
  /** What `/metrics` answers. */
  scrape(): Promise<string>;
  /** Waits until the metrics match. */
  seen(pattern: RegExp): Promise<void>;
  /** Makes what was read of the kernel's counters so much older. */
  age(ms: number): void;
}

const CONFIG = {
  ...DEFAULT_LIMITS,
  families: FAMILIES,
  strict: false,
  noMasqAllReservedRanges: false,
  requiredFiles: [],
  checkVerdicts: () => [],
};
/** Milliseconds: nothing happens that a test does not ask for. */
const RESYNC = 3_600_000;

/** Starts it, and waits until its rules are in the kernel. */
export async function startAgentLab(kind: DataplaneKind, files: Files): Promise<AgentLab> {
  await using stack = new AsyncDisposableStack();
  const box = stack.use(await createBox());
  const network = stack.use(await createNetwork(box));
  const host = stack.use(await startHost(box));
  const { path } = stack.use(await temporaryDirectory());
  const volume = await ProjectedVolume.create(path, files);
  const recorder = new Recorder();
  const metrics = new Metrics();
  recorder.attach(metrics);
  const status = new StatusObserver(recorder, buildInfo());
  const log = pino({ level: 'silent' });
  const agent = {
    reader: { configDir: path, config: CONFIG, resyncInterval: RESYNC },
    familiesWithoutRules: async () => [],
    ownAddresses: usableSourceAddresses,
    cpuTime: () => 0,
    syncTimeout: 30_000,
    lock: async () => {},
    open: async () => ({ dataplane: await openDataplane(kind, host) }),
  };
  let now = 0;
  const counts = new PacketCounts(() => now);
  const about = {
    families: FAMILIES,
    interval: () => RESYNC,
    version: '',
    node: '',
    configJson: () => '',
    conntrack: async () => undefined,
  };
  const stop = new AbortController();
  const triggers = new Triggers(path, RESYNC, log, stop.signal);
  const server = await serve({
    address: '127.0.0.1:0',
    flag: '',
    routes: routes({ status, metrics, counts, ...about }),
    signal: stop.signal,
    onListening: () => {},
    onFailure: (error) => assert.fail(error),
    onError: (error) => assert.fail(String(error)),
  });
  const { port } = server.address() as AddressInfo;
  const running = (async () => {
    for await (const { interval } of syncs(agent, triggers, status, log, stop.signal))
      triggers.interval = interval;
  })();
  stack.defer(async () => {
    stop.abort();
    await running;
  });
  const scrape = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const seen = (pattern: RegExp) =>
    eventually(
      async () => pattern.test(await scrape()),
      () => `metrics like ${pattern}`,
    );
  await seen(/^ip_masq_agent_syncs_total\{family="IPv6",result="changed"\} 1$/m);
  const owned = stack.move();
  const age = (ms: number) => {
    now += ms;
  };
  return {
    network,
    host,
    volume,
    triggers,
    scrape,
    seen,
    age,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
