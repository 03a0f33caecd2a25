/** The table of docs/install.md that says how much memory how many CIDRs need. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createNode, SERVED } from '../e2e/support.ts';
import { memoryCgroup } from '../lab/cgroups.ts';
import { type Size, sizes } from '../lab/sizing.ts';
import { DATAPLANES } from '../packets/support.ts';

const MIB = 2 ** 20;
/** How long the agent is watched after a change: it looks at foreign rules and connections again. */
const WATCHED_MS = 2_000;
/** For more, the benchmark looks whether the limit covers a command in the pod. */
const MOST_WITH_COMMAND = 10_000;
/** A config file may have at most 1 MiB. */
const MOST_OF_A_FILE = 50_000;

const contentOf = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

const SIZES = sizes();

it('the manifest has the limit of the first row', () => {
  const [, limit] =
    /limits: \{memory: (\d+)Mi\}/.exec(contentOf('examples/kubernetes/base/daemonset.yaml')) ?? [];
  assert.deepEqual([SIZES[0]?.cidrs, SIZES[0]?.limitMiB], [1_000, Number(limit)]);
});

for (const { name, flags } of DATAPLANES)
  for (const size of SIZES)
    if (name === 'nftables' || !size.flags.includes('--backend=nftables'))
      it(`${size.cidrs} CIDRs need no more memory than the documentation says, ${name}`, (t) =>
        stayWithin(t, size, name, flags));

/** Starts the agent, replaces all CIDRs, and asks a command meanwhile. */
async function stayWithin(
  t: TestContext,
  { cidrs, limitMiB, flags }: Size,
  name: string,
  dataplane: readonly string[],
): Promise<void> {
  await using cgroup = await memoryCgroup(limitMiB * MIB);
  await using node = await createNode(undefined, cgroup);
  const volume = await node.volume(configFiles(cidrs, 1));
  const agent = node.start(SERVED, ...flags, ...dataplane);
  await agent.logged(/rules added/);
  await volume.swap(configFiles(cidrs, 2));
  if (cidrs <= MOST_WITH_COMMAND) {
    // Perhaps before the change: no config file lists the address.
    const { code, stdout } = await node.agent('explain', '--live', ...flags, '10.0.0.3');
    assert.equal(code, 0, stdout);
  }
  await agent.logged(/"reason":"change"/);
  await delay(WATCHED_MS);
  assert.equal(await cgroup.kills(), 0, agent.log());
  // Older kernels do not tell it.
  const peak = await cgroup.peak().catch(() => undefined);
  if (peak !== undefined)
    t.diagnostic(`${name}, ${cidrs} CIDRs: ${(peak / MIB).toFixed(1)} of ${limitMiB} MiB`);
  await agent.stop();
}

/** Config files with so many CIDRs together, all of which end with this number. */
function configFiles(count: number, last: number): Record<string, string> {
  const cidrs = Array.from(
    { length: count },
    (_, index) => `${10 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}.${last}/32`,
  );
  const parts = Array.from({ length: Math.ceil(count / MOST_OF_A_FILE) }, (_, part) =>
    cidrs.slice(part * MOST_OF_A_FILE, (part + 1) * MOST_OF_A_FILE),
  );
  return Object.fromEntries(
    parts.map((part, index) => [
      `ip-masq-${index}`,
      `cidrLimit: ${part.length}\nnonMasqueradeCIDRs: [${part.join(', ')}]\n`,
    ]),
  );
}
