import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Round, rounds } from '../../../lib/agent/loop.ts';
import type { AgentOptions } from '../../../lib/agent/options.ts';
import { unreadyReason } from '../../../lib/agent/out-of-sync.ts';
import { Reasons, scheduleOf } from '../../../lib/agent/reasons.ts';
import { Knowledge } from '../../../lib/agent/state.ts';
import type { Dataplane, Observed, Plan } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { compilePolicy, type Policy } from '../../../lib/policy/policy.ts';
import { verdictsOf } from '../../../lib/policy/verdicts.ts';
import { capturedLog } from '../../lab/log.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { mergedOf, OPTIONS } from '../config/support.ts';

const INSIDE = (cidr: string) => `nonMasqueradeCIDRs: [${cidr}]\n`;
const INVALID = 'x: 1\n';

/** What an earlier run has kept, with this text. */
const keptOf = (text: string) => ({
  configFiles: [{ name: 'ip-masq-a', text }],
  since: '2026-01-01T00:00:00Z',
});
const KEPT = keptOf(INSIDE('12.0.0.0/8'));

const policyOf = (cidr: string) => compilePolicy(mergedOf({ a: INSIDE(cidr) }), 'IPv4');

/** A kernel that holds a policy of IPv4, which other programs may change, and whose steps may fail or hang. */
class Kernel {
  #held: Policy | undefined;
  generation = 1;
  /** What happens at a step, before it is done. */
  before: (step: 'open' | 'observe' | 'apply') => Promise<void> | void = () => {};
  /** Throws if nothing can be planned. */
  obstacle: () => void = () => {};
  readonly steps: string[] = [];

  get held(): Policy | undefined {
    return this.#held;
  }

  set held(held: Policy | undefined) {
    this.#held = held;
    this.generation += 1;
  }

  dataplane(name = 'fake'): Dataplane {
    return {
      name,
      reason: 'a test',
      iptables: undefined,
      hearsChanges: true,
      ruleCount: () => 0,
      count: async () => [],
      observe: async () => {
        await this.#step('observe');
        return this.#observed();
      },
    } as Partial<Dataplane> as Dataplane;
  }

  async open(dataplane: Dataplane): Promise<Dataplane> {
    await this.#step('open');
    return dataplane;
  }

  async #step(step: 'open' | 'observe' | 'apply'): Promise<void> {
    this.steps.push(step);
    await this.before(step);
  }

  #observed(): Observed {
    const { held, generation } = this;
    const apply = (policy: Policy) => async () => {
      await this.#step('apply');
      if (this.generation !== generation) throw new DataplaneError('raced', 'it has changed', 'read again');
      this.held = policy;
    };
    const rules = { added: [], removed: [], kept: 0, current: [], wanted: [] };
    const planOf = (policy: Policy): Plan => ({
      ...rules,
      family: 'IPv4',
      found: ['rules differ'],
      apply: apply(policy),
    });
    return {
      generation,
      plan: (policy) => {
        this.obstacle();
        return policy === held ? undefined : planOf(policy);
      },
      planRemoval: () => undefined,
      describeUndeletable: () => [],
      verdicts: () =>
        held === undefined
          ? { state: 'no chain', family: 'IPv4', ranges: [] }
          : { state: 'applied', ...verdictsOf(held) },
    } as Partial<Observed> as Observed;
  }
}

function blocks(): never {
  throw new DataplaneError('blocked', 'a process owns the table', 'end it');
}

/** An agent whose config directory has one file. */
async function create(more: Partial<AgentOptions> = {}) {
  const dir = await temporaryDirectory();
  const write = (text: string) => writeFileSync(join(dir.path, 'ip-masq-a'), text);
  write(INSIDE('10.0.0.0/8'));
  const [kernel, agent, reasons, stop] = [
    new Kernel(),
    new Knowledge(),
    new Reasons(),
    new AbortController(),
  ];
  const { log, lines } = capturedLog();
  const dataplane = kernel.dataplane();
  const config = { ...OPTIONS, families: ['IPv4'] as const };
  const options: AgentOptions = {
    reader: { configDir: dir.path, config, resyncInterval: 3_600_000 },
    syncTimeout: 10_000,
    watchDirectory: () => {},
    familiesWithoutRules: async () => ['IPv4'],
    staysWhileInvalid: false,
    rollout: { windowMs: 0, node: 'node' },
    readKept: async () => undefined,
    effectOnNode: async () => 'nothing changes',
    takeLock: async () => {},
    chooseDataplane: () => kernel.open(dataplane),
    ownAddresses: () => [],
    ...more,
  };
  const loop = rounds({ options, agent, notices: new Notices(log), signal: stop.signal }, reasons);
  const next = async (): Promise<Round> => (await loop.next()).value ?? assert.fail('the loop has ended');
  return {
    ...{ kernel, agent, reasons, stop, write, loop, next },
    /** The last range that the kernel has. */
    config: () => kernel.held?.entries.map(({ prefix }) => prefix.text).at(-1),
    /** The messages in the log. */
    said: () => lines.map(({ msg }) => String(msg)),
    signal: async () => {
      reasons.add('signal');
      return await next();
    },
    change: async (text: string) => {
      write(text);
      reasons.add('change');
      return await next();
    },
    /** Another program deletes the rules. */
    drift: async () => {
      kernel.held = undefined;
      reasons.addChanges({ items: [], lost: true });
      return await next();
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await dir[Symbol.asyncDispose]();
    },
  };
}

describe('a round', () => {
  it('reads, observes, applies and observes again, and its state says so', async (t) => {
    await using lab = await create();
    const round = await lab.next();
    assert.deepEqual(lab.kernel.steps, ['open', 'observe', 'apply', 'observe']);
    assert.partialDeepStrictEqual(round, {
      inSync: true,
      syncs: [{ found: ['rules differ'], drifted: false }],
    });
    const { families, outOfSync, policies } = lab.agent.state;
    assert.equal(families.get('IPv4')?.generation, 2);
    assert.equal(families.get('IPv4')?.policy, policies[0]);
    assert.equal(unreadyReason(outOfSync, performance.now() + 60_000), undefined);
    lab.reasons.addChanges({ items: [], lost: true });
    lab.kernel.steps.length = 0;
    assert.deepEqual((await lab.next()).syncs[0]?.found, undefined);
    assert.deepEqual(lab.kernel.steps, ['open', 'observe']);
    // A sync that finds no difference is no change.
    t.mock.method(Date, 'now', () => 7);
    await lab.signal();
    const { lastSync, lastChange } = lab.agent.state.families.get('IPv4') ?? {};
    assert.deepEqual([lastSync, lastChange === 7], [7, false]);
  });

  it('writes the config of the next reading, if it is swapped while it syncs', async () => {
    await using lab = await create();
    lab.kernel.before = (step) => {
      if (step !== 'apply') return;
      lab.kernel.before = () => {};
      lab.write(INSIDE('11.0.0.0/8'));
      lab.reasons.add('change');
    };
    assert.equal((await lab.next()).inSync, true);
    assert.equal(lab.config(), '10.0.0.0/8');
    assert.equal((await lab.next()).trigger.reason, 'change');
    assert.equal(lab.config(), '11.0.0.0/8');
  });

  it('takes what another program has changed for drift, also between its two readings', async () => {
    await using lab = await create();
    await lab.next();
    assert.equal((await lab.drift()).syncs[0]?.drifted, true);
    lab.kernel.before = (step) => {
      if (step === 'observe' && lab.kernel.steps.at(-2) === 'apply') lab.kernel.held = undefined;
    };
    const torn = await lab.change(INSIDE('11.0.0.0/8'));
    assert.deepEqual([torn.inSync, torn.syncs[0]?.drifted], [false, false]);
    assert.match(
      unreadyReason(lab.agent.state.outOfSync, performance.now() + 6_000) ?? '',
      /again and again/,
    );
    lab.kernel.before = () => {};
    // Nobody tells of it: the round was not in sync, which is a reason.
    assert.deepEqual([(await lab.next()).trigger.reason, lab.config()], ['kernel', '11.0.0.0/8']);
  });

  it('begins again if the kernel changes in between, and counts that', async () => {
    await using lab = await create();
    let races = 2;
    lab.kernel.before = (step) => {
      if (step === 'apply' && races > 0) {
        races -= 1;
        lab.kernel.generation += 1;
      }
    };
    const { inSync, retries } = await lab.next();
    assert.deepEqual([inSync, retries], [true, ['raced', 'raced']]);
  });

  it('knows after a round for an event of the kernel that the rules are in sync: what blocked the start has ended', async () => {
    await using lab = await create();
    lab.kernel.before = blocks;
    await lab.next();
    lab.kernel.before = () => {};
    // As if the rules of an earlier run were there all the time.
    lab.kernel.held = lab.agent.state.policies[0];
    const { trigger, inSync } = await lab.next();
    assert.deepEqual([trigger.reason, inSync], ['kernel', true]);
    const { syncedAt, lastSync, lastChange } = lab.agent.state.families.get('IPv4') ?? {};
    assert.ok(syncedAt !== undefined && lastSync !== undefined);
    assert.equal(lastChange, undefined);
  });

  it('knows that it has changed the rules, although they were not in sync when they were read back', async () => {
    await using lab = await create();
    let isTorn = true;
    lab.kernel.before = (step) => {
      if (!isTorn || step !== 'observe' || lab.kernel.steps.at(-2) !== 'apply') return;
      isTorn = false;
      const { held } = lab.kernel;
      lab.kernel.held = undefined;
      lab.kernel.before = () => {
        lab.kernel.held = held;
      };
    };
    assert.equal((await lab.next()).inSync, false);
    const { lastChange, lastFound } = lab.agent.state.families.get('IPv4') ?? {};
    assert.ok(lastChange !== undefined);
    assert.deepEqual(lastFound, ['rules differ']);
    assert.equal((await lab.next()).syncs[0]?.found, undefined);
    assert.equal(lab.agent.state.families.get('IPv4')?.lastChange, lastChange);
  });

  it('tells each time that another program blocks the rules, once, and that it no longer does', async () => {
    await using lab = await create();
    await lab.next();
    const round = async (before: Kernel['before']) => {
      lab.kernel.before = before;
      await lab.signal();
    };
    for (let time = 0; time < 2; time += 1) {
      await round(blocks);
      await round(blocks);
      await round(() => {});
      await round(() => {});
    }
    const said = lab.said().filter((msg) => /owns the table|blocks/.test(msg));
    const blocked = 'a process owns the table; the rules stay as they are; end it';
    const ended = 'no other program blocks the rules any more';
    assert.deepEqual(said, [blocked, ended, blocked, ended]);
  });

  it('compares the rules again only if the generation of the kernel has changed since they were in sync', async () => {
    await using lab = await create();
    await lab.next();
    lab.kernel.obstacle = blocks;
    assert.equal((await lab.signal()).inSync, true);
    lab.kernel.generation += 1;
    assert.equal((await lab.signal()).blocked?.failure, 'blocked');
  });

  it('says that nothing blocks the rules any more only after it has read them: they may be blocked again once it has written', async () => {
    await using lab = await create();
    lab.kernel.before = blocks;
    await lab.next();
    lab.kernel.before = (step) => {
      if (step === 'apply') lab.kernel.before = blocks;
    };
    const { inSync, blocked, syncs } = await lab.next();
    assert.deepEqual([inSync, blocked, syncs[0]?.found], [false, undefined, ['rules differ']]);
    assert.doesNotMatch(lab.said().join('\n'), /blocks the rules any more/);
  });

  it('takes for applied only what was written: a plan may fail, and the next attempt may be blocked', async () => {
    await using lab = await create();
    lab.kernel.before = (step) => {
      if (step !== 'apply') return;
      lab.kernel.generation += 1;
      lab.kernel.before = (next) => (next === 'observe' ? blocks() : undefined);
    };
    const { blocked, syncs } = await lab.next();
    assert.deepEqual([blocked?.failure, syncs], ['blocked', []]);
    assert.equal(lab.agent.state.families.get('IPv4')?.policy, undefined);
    assert.doesNotMatch(lab.said().join('\n'), /rules added/);
  });

  for (const [part, isWhole] of [
    ['a part', false],
    ['all', true],
  ] as const)
    it(`tells a change once, and as its own, of which an attempt that failed has written ${part}`, async () => {
      await using lab = await create();
      await lab.next();
      lab.kernel.before = (step) => {
        if (step !== 'apply') return;
        lab.kernel.before = () => {};
        lab.kernel.held = isWhole ? lab.agent.state.policies[0] : undefined;
        lab.kernel.generation += 1;
        throw new DataplaneError('busy', 'the lock is held', 'wait');
      };
      const before = lab.said().length;
      const { retries, syncs, inSync } = await lab.change(INSIDE('11.0.0.0/8'));
      assert.deepEqual([retries, lab.config(), inSync], [['busy'], '11.0.0.0/8', true]);
      assert.deepEqual(
        syncs.map(({ found, drifted, verdicts }) => [found, drifted, verdicts?.lines.length]),
        [[['rules differ'], false, 2]],
      );
      const said = lab.said().slice(before);
      assert.equal(said.filter((msg) => /^IPv4: rules added/.test(msg)).length, 1);
      assert.ok(!said.some((msg) => /another program/.test(msg)));
    });

  it('moves to another dataplane without a change of verdicts', async () => {
    const [old, now] = [new Kernel(), new Kernel()];
    const [first, second] = [old.dataplane('old'), now.dataplane('new')];
    let current = first;
    await using lab = await create({ chooseDataplane: async () => current });
    await lab.next();
    current = second;
    const round = await lab.signal();
    assert.deepEqual([now.held, round.syncs[0]?.drifted], [old.held, false]);
    assert.equal(round.syncs[0]?.verdicts?.summary, 'no verdict changes');
  });
});

describe('one deadline', { concurrency: true }, () => {
  for (const step of ['open', 'observe', 'apply'] as const)
    it(`ends a round that hangs: ${step}`, async () => {
      await using lab = await create({ syncTimeout: 100 });
      lab.kernel.before = (now) => (now === step ? new Promise(() => {}) : undefined);
      const start = performance.now();
      await assert.rejects(lab.next(), { message: /^the sync has not ended within 100 ms$/ });
      assert.ok(performance.now() - start < 10_000);
      assert.equal(lab.kernel.held, undefined);
    });

  it('ends a round for which the disk of an earlier config hangs', async () => {
    await using lab = await create({ syncTimeout: 100, readKept: () => new Promise(() => {}) });
    lab.write(INVALID);
    await assert.rejects(lab.next(), { message: /^the sync has not ended within 100 ms$/ });
  });

  it('holds for all steps of a round together', async () => {
    const busy = new DataplaneError('busy', 'the lock is held', 'wait');
    await using lab = await create({
      syncTimeout: 1_000,
      takeLock: async (deadline) => {
        // What is left is shorter than the shortest pause before a second attempt.
        await delay(deadline - performance.now() - 10);
      },
    });
    let attempts = 0;
    lab.kernel.before = () => {
      attempts += 1;
      throw busy;
    };
    await assert.rejects(lab.next(), { message: 'gave up after 1000 ms: the lock is held', failure: 'busy' });
    assert.equal(attempts, 1);
  });
});

describe('the signal', () => {
  for (const step of ['open', 'observe', 'apply'] as const)
    it(`leaves the old rules or the new ones, and ends the loop: ${step}`, async () => {
      await using lab = await create();
      lab.kernel.before = (now) => {
        if (now === step) lab.stop.abort();
      };
      await lab.next();
      assert.equal(lab.config(), '10.0.0.0/8');
      assert.equal((await lab.loop.next()).done, true);
    });
});

describe('an invalid config', () => {
  it('ends the loop before the kernel is touched', async () => {
    await using lab = await create();
    await lab.next();
    lab.kernel.steps.length = 0;
    await assert.rejects(lab.change(INVALID), { name: 'Error', message: '1 error in the config' });
    assert.deepEqual([lab.kernel.steps, lab.config()], [[], '10.0.0.0/8']);
  });

  it('leaves the last valid one in use if that is to be kept, and drift is repaired meanwhile', async () => {
    await using lab = await create({ staysWhileInvalid: true });
    await lab.next();
    await lab.change(INVALID);
    await lab.drift();
    assert.equal(lab.config(), '10.0.0.0/8');
    const [said, ...more] = lab.said().filter((msg) => msg.startsWith('1 error in the config; '));
    assert.match(`${said}`, /^1 error in the config; the config that was applied last stays in use until/);
    assert.deepEqual(more, []);
    await lab.change(INSIDE('11.0.0.0/8'));
    assert.deepEqual([lab.config(), lab.agent.state.invalid], ['11.0.0.0/8', undefined]);
  });

  it('changes nothing before there is a valid one, if the rules are to be kept', async () => {
    await using lab = await create({ staysWhileInvalid: true });
    lab.write(INVALID);
    assert.deepEqual((await lab.next()).syncs, []);
    assert.deepEqual([lab.kernel.steps, lab.agent.state.ownsRules], [[], true]);
  });

  it('says nothing of rules, if the node was busy when the agent looked for those of an earlier run', async () => {
    let isFirst = true;
    const busy = async () => {
      if (!isFirst) return [];
      isFirst = false;
      throw new DataplaneError('busy', 'the xtables lock is held', 'wait');
    };
    await using lab = await create({ staysWhileInvalid: true, familiesWithoutRules: busy });
    lab.write(INVALID);
    assert.deepEqual((await lab.next()).retries, ['busy']);
    assert.equal(unreadyReason(lab.agent.state.outOfSync, performance.now() + 60_000), undefined);
  });

  it('keeps the whole config of an earlier run in use, also for a family that has rules, if it is to be kept', async () => {
    const families = ['IPv6'] as const;
    await using lab = await create({
      staysWhileInvalid: true,
      familiesWithoutRules: async () => families,
      readKept: async () => KEPT,
    });
    lab.write(INVALID);
    await lab.next();
    await lab.drift();
    assert.equal(lab.config(), '12.0.0.0/8');
  });

  for (const [holds, when] of [
    [true, 'is used if the kernel still holds it, to repair its rules'],
    [false, 'is not used if the kernel holds other rules, or another program blocks them'],
  ] as const)
    it(`what an earlier run has kept ${when}`, async () => {
      const more = { staysWhileInvalid: true, familiesWithoutRules: async () => [] };
      await using lab = await create({ ...more, readKept: async () => KEPT });
      lab.kernel.held = policyOf(holds ? '12.0.0.0/8' : '13.0.0.0/8');
      lab.write(INVALID);
      await lab.next();
      assert.equal(lab.agent.state.valid?.keptSince, holds ? KEPT.since : undefined);
      assert.equal(lab.config(), holds ? '12.0.0.0/8' : '13.0.0.0/8');
      if (!holds) lab.kernel.obstacle = blocks;
      lab.kernel.held = undefined;
      await lab.change(INVALID);
      assert.equal(lab.config(), holds ? '12.0.0.0/8' : undefined);
    });

  it('says once that what an earlier run has kept is not valid with these flags', async () => {
    const readKept = async () => keptOf(INVALID);
    await using lab = await create({ staysWhileInvalid: true, readKept });
    lab.write(INVALID);
    await lab.next();
    for (let round = 0; round < 2; round += 1) await lab.signal();
    assert.equal(lab.said().filter((msg) => /not valid with these flags/.test(msg)).length, 1);
  });

  it('brings back what a reboot has taken: the last valid one of an earlier run, before the loop ends', async () => {
    await using lab = await create({ readKept: async () => KEPT });
    lab.write(INVALID);
    await assert.rejects(lab.next(), {
      consequence:
        'this node had no rules for IPv4, and now has those of its last valid config, of 2026-01-01T00:00:00Z',
    });
    assert.equal(lab.config(), '12.0.0.0/8');
  });

  it('says why it cannot bring them back, and what to do; a signal is no such failure', async () => {
    const restore = async (before: (stop: AbortController) => void) => {
      await using lab = await create({ readKept: async () => KEPT });
      lab.write(INVALID);
      lab.kernel.before = () => before(lab.stop);
      const error: unknown = await lab.next().catch((thrown: unknown) => thrown);
      assert.ok(error instanceof Error);
      return [error.message, lab.said().at(-1)];
    };
    assert.deepEqual(await restore(blocks), [
      '1 error in the config',
      'cannot write the rules of the last valid config: a process owns the table; end it',
    ]);
    const [thrown, said] = await restore((stop) => {
      stop.abort();
      throw new DataplaneError('busy', 'the lock is held', 'wait');
    });
    assert.equal(thrown, 'The operation was aborted');
    assert.doesNotMatch(String(said), /cannot write/);
  });
});

describe('a rollout window', () => {
  const WAVES = { staysWhileInvalid: true, rollout: { windowMs: 36_000_000, node: 'node' } };

  it('is a time for the next round, and what is in use is repaired until then', async () => {
    await using lab = await create(WAVES);
    await lab.next();
    await lab.change(INSIDE('11.0.0.0/8'));
    const { pending } = lab.agent.state;
    assert.ok(pending !== undefined && pending.dueAt > performance.now());
    assert.equal(scheduleOf(lab.agent.state, 576 * 3_600_000).resyncAt, pending.dueAt);
    assert.equal((await lab.drift()).syncs[0]?.drifted, true);
    assert.equal(lab.config(), '10.0.0.0/8');
    await lab.signal();
    assert.deepEqual([lab.config(), lab.agent.state.pending], ['11.0.0.0/8', undefined]);
  });

  it('takes what an earlier run has kept for the config in use, if the kernel holds its verdicts', async () => {
    for (const [cidr, repaired] of [
      ['12.0.0.0/8', '12.0.0.0/8'],
      ['13.0.0.0/8', undefined],
    ] as const) {
      await using lab = await create({ ...WAVES, readKept: async () => KEPT });
      lab.kernel.held = policyOf(cidr);
      await lab.next();
      assert.ok(lab.agent.state.pending !== undefined);
      assert.equal(lab.agent.state.inUse?.configFiles[0]?.text, repaired && INSIDE(repaired));
      assert.equal(lab.config(), cidr);
    }
  });

  it('does not hold up what the last run has applied: drift while no agent ran is repaired at once', async () => {
    const readKept = async () => keptOf(INSIDE('10.0.0.0/8'));
    await using lab = await create({ ...WAVES, readKept });
    lab.kernel.held = policyOf('13.0.0.0/8');
    await lab.next();
    assert.deepEqual([lab.config(), lab.agent.state.pending], ['10.0.0.0/8', undefined]);
  });

  it('does not hold up going back; what was left then is a change like any other', async () => {
    await using lab = await create(WAVES);
    await lab.next();
    const after = async (reason: 'change' | 'signal', cidr: string) => {
      lab.write(INSIDE(cidr));
      lab.reasons.add(reason);
      await lab.next();
      return lab.config();
    };
    assert.equal(await after('signal', '11.0.0.0/8'), '11.0.0.0/8');
    assert.equal(await after('change', '10.0.0.0/8'), '10.0.0.0/8');
    assert.equal(await after('change', '11.0.0.0/8'), '10.0.0.0/8');
    assert.ok(lab.agent.state.pending !== undefined);
  });

  it('leaves an agent ready that has had to ask the kernel twice', async () => {
    await using lab = await create(WAVES);
    lab.kernel.held = policyOf('12.0.0.0/8');
    let isFirst = true;
    lab.kernel.before = (step) => {
      if (step !== 'observe' || !isFirst) return;
      isFirst = false;
      throw new DataplaneError('busy', 'another program holds the lock', 'wait');
    };
    await lab.next();
    assert.ok(!isFirst && lab.agent.state.pending !== undefined);
    assert.equal(unreadyReason(lab.agent.state.outOfSync, performance.now() + 60_000), undefined);
  });

  it('leaves no agent ready whose rules another program blocks, and SIGHUP counts when that has ended', async () => {
    await using lab = await create(WAVES);
    lab.kernel.held = policyOf('12.0.0.0/8');
    lab.kernel.obstacle = blocks;
    await lab.next();
    const { outOfSync, families, pending } = lab.agent.state;
    assert.match(unreadyReason(outOfSync, performance.now() + 6_000) ?? '', /owns the table/);
    assert.deepEqual([families.size, pending], [0, undefined]);
    await lab.signal();
    lab.kernel.obstacle = () => {};
    await lab.next();
    assert.deepEqual([lab.config(), lab.agent.state.pending], ['10.0.0.0/8', undefined]);
  });

  it('names the rules of an earlier run if the config files become invalid before this run has applied one', async () => {
    await using lab = await create(WAVES);
    lab.kernel.held = policyOf('12.0.0.0/8');
    await lab.next();
    assert.ok(lab.agent.state.pending !== undefined);
    await lab.change(INVALID);
    assert.equal(lab.config(), '12.0.0.0/8');
    const said = lab.said().filter((msg) => msg.startsWith('1 error'));
    assert.deepEqual(said, [
      '1 error in the config; the rules of an earlier run stay until the config files are valid again',
    ]);
  });

  it('does not make the agent ask a kernel all the time that cannot tell what it holds', async () => {
    await using lab = await create(WAVES);
    lab.kernel.held = policyOf('12.0.0.0/8');
    await lab.next();
    const { pending } = lab.agent.state;
    assert.ok(pending !== undefined);
    lab.agent.set({ pending: { ...pending, dueAt: performance.now() - 1 } });
    lab.kernel.before = blocks;
    assert.equal((await lab.next()).blocked?.failure, 'blocked');
    assert.ok(scheduleOf(lab.agent.state, 1_000_000).resyncAt > performance.now() + 500);
    lab.kernel.before = () => {};
    await lab.next();
    assert.equal(lab.config(), '10.0.0.0/8');
  });
});
