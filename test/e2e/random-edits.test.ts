import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { carryOut, type Edit, edits, PROTOCOLS, type Saved, save, type Way } from '../lab/edits.ts';
import { kernelState } from '../lab/kernel-state.ts';
import { RUNS } from '../lab/runs.ts';
import {
  CONFIG_FILE,
  configs,
  createFreshStates,
  empty,
  type FreshStates,
  NODE_ADDRESSES,
  setAddresses,
  WAY_FLAGS,
} from './fresh.ts';
import { createNode, type NodeLab } from './support.ts';

/** Other programs edit the agent's rules, then the agent syncs once. */
interface Step {
  readonly edits: readonly Edit[];
  readonly config: string;
  readonly netlink: 'auto' | 'off';
}

/** As fast-check prints it: to repeat a run. */
const SEED = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);
const FLAGS = ['--enable-ipv6'];

describe(`one sync with whatever another program has made of the agent's rules, seed ${SEED}`, {
  concurrency: true,
  timeout: 100_000 * RUNS,
}, () => {
  for (const way of ['nftables', 'iptables-nft', 'iptables-legacy'] as const) {
    it(`makes what it makes of an empty kernel, ${way}`, async () => {
      await using node = await createNode();
      await setAddresses(node.box, NODE_ADDRESSES);
      await using fresh = await createFreshStates();
      await fc.assert(
        fc.asyncProperty(walks(way), (steps) => walk(node, fresh, way, steps)),
        {
          seed: SEED,
          // Each tool of the legacy mode takes longer.
          numRuns: (way === 'iptables-legacy' ? 2 : 4) * RUNS,
          examples: way === 'nftables' ? [[OPEN_RANGES]] : [],
          // To make a failure smaller takes minutes: do that by hand, with the seed.
          endOnFailure: true,
        },
      );
    });
  }
});

function walks(way: Way): fc.Arbitrary<readonly Step[]> {
  // Few, because each costs a run of the agent in the other namespace.
  const some = fc.sample(configs(), { seed: SEED, numRuns: 6 * RUNS });
  const step = fc.record({
    edits: fc.array(edits(way), { maxLength: 8 }),
    config: fc.constantFrom(...some),
    netlink: way === 'nftables' ? fc.constant('auto') : fc.constantFrom('auto', 'off'),
  });
  return fc.array(step, { minLength: 1, maxLength: 5 });
}

/** A rule that leads to a chain of the agent, maybe by the one foreign chain. */
const TO_AGENT = /^-A (?:PREROUTING|OUTPUT) .*-[jg] (?:IP-MASQ-AGENT|FOREIGN)/m;

async function walk(node: NodeLab, fresh: FreshStates, way: Way, steps: readonly Step[]): Promise<void> {
  const saved: Saved[] = [];
  await empty(node.box);
  for (const { edits, config, netlink } of steps) {
    for (const edit of edits) await carryOut(node.box, way, edit, saved);
    await writeFile(join(node.configDir, CONFIG_FILE), config);
    const sync = async () => {
      const before = await kernelState(node.box, way);
      const result = await node.agent('--once', `--netlink=${netlink}`, ...WAY_FLAGS[way], ...FLAGS);
      return { ...result, before, after: await kernelState(node.box, way) };
    };
    const wanted = fresh.of({ way, config, flags: FLAGS, addresses: NODE_ADDRESSES });
    let synced = await sync();
    // While a rule of such a chain leads to an empty chain, the kernel refuses MASQUERADE in it.
    if (synced.code !== 0 && TO_AGENT.test(synced.before.foreign ?? '')) {
      for (const protocol of PROTOCOLS)
        for (const chain of ['PREROUTING', 'OUTPUT'])
          await carryOut(node.box, way, { protocol, iptables: ['-F', chain] }, []);
      synced = await sync();
    }
    const { code, stderr, before, after } = synced;
    assert.equal(code, 0, stderr);
    assert.equal(after.own, await wanted);
    if (before.foreign !== undefined) assert.equal(after.foreign, before.foreign);
    saved.push(await save(node.box, way));
  }
}

/** The kernel keeps no end for a range that ends at the highest address: two of them in one set cannot be told apart. */
const OPEN_RANGES: readonly Step[] = ['128.0.0.0/1', '224.0.0.0/4', '10.0.0.0/8'].map((cidr, index) => ({
  edits: index === 2 ? [{ protocol: 'ip', load: 0 }] : [],
  config: JSON.stringify({ nonMasqueradeCIDRs: [cidr] }),
  netlink: 'auto',
}));
