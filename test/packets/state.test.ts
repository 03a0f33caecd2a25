import assert from 'node:assert/strict';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createNode, eventually, SERVED } from '../e2e/support.ts';
import { startFetcher } from '../lab/helpers.ts';
import { startHost } from '../lab/host.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { owning } from '../lab/owning.ts';
import { RUNS } from '../lab/runs.ts';
import { type Files, ProjectedVolume } from '../lab/volume.ts';
import { mergedOf } from '../unit/config/support.ts';
import { BACKENDS, type DataplaneKind, NO_LAB, openDataplane, sync } from './support.ts';

/** What a start can find. */
const CONFIGS = ['valid', 'invalid', 'a file is gone', 'no ConfigMap'] as const;
const KERNELS = ['rules', 'empty'] as const;
const MODES = ['exit', 'keep'] as const;
const STATES = ['state', 'none', 'damaged'] as const;

interface Start {
  readonly config: (typeof CONFIGS)[number];
  readonly kernel: (typeof KERNELS)[number];
  readonly mode: (typeof MODES)[number];
  readonly state: (typeof STATES)[number];
}

/** What follows from it. */
interface Outcome {
  /** Where packets of a pod to a destination inside and to one outside come from. */
  readonly sources: string;
  /** 0 if the agent stays. */
  readonly code: number;
  readonly readyz: string;
  /** What it says. */
  readonly message: RegExp;
}

const VALID = {
  'ip-masq-a': 'nonMasqueradeCIDRs: [203.0.113.0/24]\n',
  'ip-masq-b': 'nonMasqueradeCIDRs: [10.0.0.0/8]\n',
};
const FILES: Readonly<Record<Start['config'], Files>> = {
  valid: VALID,
  invalid: { ...VALID, 'ip-masq-b': 'nonMasqueradeCIDRs: [10.0.0.1/8]\n' },
  'a file is gone': { 'ip-masq-b': VALID['ip-masq-b'] },
  'no ConfigMap': {},
};
/** The first is inside if the config file ip-masq-a counts. */
const DESTINATIONS = ['203.0.113.9', '198.51.100.9'];

const APPLIED = 'pod, node';
const WITHOUT_RULES = 'pod, pod';
const ALL_MASQUERADED = 'node, node';

function outcomeOf({ config, kernel, mode, state }: Start): Outcome {
  const knows = state === 'state';
  const stays = { code: 0, readyz: '200' };
  if (config === 'valid') return { ...stays, sources: APPLIED, message: /using / };
  // After a restart, what is not there is not there.
  if (config !== 'invalid') return { ...stays, sources: ALL_MASQUERADED, message: /using / };
  const sources = knows || kernel === 'rules' ? APPLIED : WITHOUT_RULES;
  const outcome = {
    sources,
    ...(mode === 'keep' ? { code: 0, readyz: '503' } : { code: 3, readyz: 'none' }),
  };
  // An agent that stays repairs these rules, if they are those of the state.
  if (kernel === 'rules' && !(mode === 'keep' && knows))
    return { ...outcome, message: /the rules on this node do not change/ };
  if (!knows) return { ...outcome, message: /this node has no rules of the agent/ };
  const [kept, restored] = [
    /the config that was applied last, of \S+ stays in use/,
    /this node had no rules for IPv4, and now has those of its last valid config, of \S+Z/,
  ];
  return { ...outcome, message: mode === 'keep' ? kept : restored };
}

const DAMAGED = /cannot use the last valid config in .*: last-valid.json is damaged/;

const ALL: readonly Start[] = CONFIGS.flatMap((config) =>
  KERNELS.flatMap((kernel) =>
    MODES.flatMap((mode) => STATES.map((state) => ({ config, kernel, mode, state }))),
  ),
);
const DOCUMENTED = await documented();

describe('what packets do after a start', { concurrency: true, skip: NO_LAB }, () => {
  it('is published for ten starts', () => {
    assert.equal(DOCUMENTED.length, 10);
    for (const { start, sources, code, readyz } of DOCUMENTED) {
      const { message: _, ...outcome } = outcomeOf(start);
      assert.deepEqual({ sources, code, readyz }, outcome, JSON.stringify(start));
    }
  });

  for (const kind of BACKENDS)
    describe(kind.name, { concurrency: 1 }, () => {
      const disposables = new AsyncDisposableStack();
      let lab: Lab;
      before(async () => {
        lab = disposables.use(await createLab());
      });
      after(() => disposables.disposeAsync());
      const starts = RUNS > 1 ? ALL : DOCUMENTED.map(({ start }) => start);
      for (const start of starts)
        it(
          Object.entries(start)
            .map((pair) => pair.join(': '))
            .join(', '),
          async () => {
            const { log, ...found } = await startIn(lab, kind, start);
            const { message, ...outcome } = outcomeOf(start);
            assert.deepEqual(found, outcome, log);
            assert.match(log, message);
            const isRead = start.config === 'invalid' && (start.kernel === 'empty' || start.mode === 'keep');
            assert.equal(DAMAGED.test(log), isRead && start.state === 'damaged');
          },
        );
    });
});

const createLab = () =>
  owning(async (stack) => {
    const node = stack.use(await createNode());
    const network = stack.use(await createNetwork(node.box));
    const host = stack.use(await startHost(node.box));
    const fetcher = stack.use(await startFetcher(node.box));
    return { node, network, host, fetcher };
  });

type Lab = Awaited<ReturnType<typeof createLab>>;

async function startIn({ node, network, host, fetcher }: Lab, kind: DataplaneKind, start: Start) {
  const { config, kernel, mode, state } = start;
  await node.nft('flush ruleset');
  for (const dir of ['config', 'state']) await rm(join(node.dir, dir), { recursive: true, force: true });
  if (kernel === 'rules') await sync(await openDataplane(kind, host), mergedOf(VALID));
  await ProjectedVolume.create(node.configDir, FILES[config]);
  const dir = join(node.dir, 'state');
  await mkdir(dir, { mode: 0o755 });
  await prepareState(dir, state);
  const agent = node.start(`--state-dir=${dir}`, `--on-invalid-config=${mode}`, ...kind.flags, SERVED);
  let code: number | null = 0;
  void agent.ended.then((end) => {
    code = end.code;
  });
  await eventually(
    () => code !== 0 || agent.log().includes('metrics, probes and status on'),
    () => `the agent to serve or to end: ${agent.log()}`,
  );
  const seen = await network.sourcesSeen(DESTINATIONS);
  const sources = seen.map(({ address }) => NAMES[address] ?? address).join(', ');
  const { status } = await fetcher.ask({ url: 'http://127.0.0.1:9614/readyz' });
  if (code === 0) await agent.stop();
  return { sources, code, readyz: `${status ?? 'none'}`, log: agent.log() };
}

const NAMES: Readonly<Record<string, string>> = { [POD.IPv4]: 'pod', [NODE.IPv4]: 'node' };

async function prepareState(dir: string, state: Start['state']): Promise<void> {
  if (state === 'none') return;
  const text = JSON.stringify({ data: VALID });
  await writeFile(join(dir, 'last-valid.json'), state === 'damaged' ? text.slice(1) : text);
}

/** The starts and outcomes of the table of the documentation. */
async function documented() {
  const page = await readFile(new URL('../../docs/configuration.md', import.meta.url), 'utf8');
  const rows = [...page.matchAll(/^\| `(exit|keep)` \|(.*)\|$/gm)];
  return rows.map(([, mode = '', rest = '']) => {
    const cells = rest.split('|').map((cell) => cell.trim());
    const [config, kernel, state, inside, outside, code, readyz = ''] = cells;
    const start = { config, kernel, mode, state } as Start;
    return { start, sources: `${inside}, ${outside}`, code: Number(code), readyz };
  });
}
