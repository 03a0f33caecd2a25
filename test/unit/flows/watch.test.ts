import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { Knowledge } from '../../../lib/agent/state.ts';
import { MOST_FLOWS } from '../../../lib/flows/read.ts';
import { FlowWatch } from '../../../lib/flows/watch.ts';
import { Notices } from '../../../lib/log/notices.ts';
import type { Flow } from '../../../lib/netlink/conntrack.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { capturedLog } from '../../lab/log.ts';
import { factsOf, familyOf } from '../status/support.ts';
import { flowOf, sourceOf } from './support.ts';

const UDP = flowOf({ from: '10.244.1.2:1', to: '203.0.113.9:53' });
const TCP = flowOf({ from: '10.244.1.2:2', to: '203.0.113.9:443' }, { protocol: 6, tcpState: 3 });

/** Whether the series is not 0. */
const isAny = (line: string): boolean => !line.endsWith(' 0');

/** A watch over what `read` gives. It masquerades everything. */
function labOf(read: () => ReturnType<typeof sourceOf>, mode: 'report' | 'delete-udp' = 'report') {
  const { log, lines } = capturedLog();
  const deleted: Flow[] = [];
  let [opened, closed] = [0, 0];
  const open = () => {
    opened += 1;
    const remove = (flow: Flow) => deleted.push(flow) > 0;
    const close = () => {
      closed += 1;
    };
    try {
      return { ...read(), delete: remove, [Symbol.dispose]: close };
    } catch (error) {
      close();
      throw error;
    }
  };
  const agent = new Knowledge();
  agent.set({ families: new Map([['IPv4', familyOf({ family: 'IPv4', from: [], entries: [] })]]) });
  const options = { mode, families: ['IPv4'], toPorts: [], accepted: [] } as const;
  const node = {
    open,
    localKey: () => '',
    createIsLocal: () => () => false,
    podSources: async () => () => true,
  };
  const watch = new FlowWatch(options, agent, new Notices(log), node);
  return {
    watch,
    lines,
    deleted,
    /** How often conntrack was opened. */
    opened: () => opened,
    series: (name: string) => factsOf(agent.state).series(name),
    /** Reads, and waits until that is done. */
    read: async (after: 'change' | 'repair' | 'nothing' | 'again' = 'change') => {
      const before = closed;
      if (after === 'again') watch.readAgain();
      else watch.read(after);
      for (let turn = 0; turn < 300 && closed === before; turn += 1) await delay(1);
      await setImmediate();
    },
  };
}

describe('a reading of conntrack', () => {
  it('reports flows against the policy, and says what ends them', async () => {
    const lab = labOf(() => sourceOf([[UDP, TCP], [{ ...UDP, zone: 1 }]]));
    await lab.read();
    assert.equal(
      lab.lines[0]?.['msg'],
      '2 connections: 2 not masqueraded (IPv4) against the config, because they began before the change; they keep the old verdict until the end; --stale-flows=delete-udp ends those of UDP',
    );
    assert.deepEqual(lab.lines[0]?.['flows'], [
      'udp 10.244.1.2:1 to 203.0.113.9:53: not masqueraded',
      'tcp 10.244.1.2:2 to 203.0.113.9:443: not masqueraded',
    ]);
    assert.match(
      String(lab.lines[1]?.['msg']),
      /^1 connection of pods in a zone of conntrack.*neither counts .* nor deletes them$/,
    );
    assert.equal(lab.lines.length, 2);
    assert.deepEqual(lab.deleted, []);
    assert.deepEqual((await lab.series('flows_against_policy')).filter(isAny), [
      'ip_masq_agent_flows_against_policy{family="IPv4",verdict="not_masqueraded",since="before"} 2',
    ]);
    assert.equal((await lab.series('flows_against_policy')).length, 6);
    assert.deepEqual(await lab.series('port_usage_ratio'), [
      'ip_masq_agent_port_usage_ratio{family="IPv4"} 0',
    ]);
  });

  it('warns of flows that began since the last change, if two readings find them', async () => {
    const since = { ...TCP, id: 2 };
    let flows: readonly Flow[] = [UDP];
    const lab = labOf(() => sourceOf([flows]), 'delete-udp');
    await lab.read('nothing');
    flows = [UDP, since];
    for (const warnings of [0, 1, 1]) {
      await lab.read('again');
      assert.equal(lab.lines.length, warnings);
    }
    assert.partialDeepStrictEqual(lab.lines[0], {
      msg: "1 connection: 1 not masqueraded (IPv4) against the config, begun since the agent's last change: another program decides about them; ip-masq-agent doctor names what else does NAT on this node",
    });
    assert.equal((await lab.series('flows_against_policy')).filter(isAny).length, 2);
    lab.watch.onChange();
    await lab.read('again');
    assert.deepEqual((await lab.series('flows_against_policy')).filter(isAny), [
      'ip_masq_agent_flows_against_policy{family="IPv4",verdict="not_masqueraded",since="before"} 2',
    ]);
    assert.deepEqual(lab.deleted, []);
  });

  it('tells of them after each change, but after repairs at most once a minute', async (t) => {
    let seconds = 0;
    t.mock.method(performance, 'now', () => seconds * 1000);
    const lab = labOf(() => sourceOf([[UDP]]));
    const tells = async (at: number, after: 'change' | 'repair' | 'nothing') => {
      seconds = at;
      const before = lab.lines.length;
      await lab.read(after);
      return lab.lines.length > before;
    };
    assert.equal(await tells(1, 'nothing'), false);
    assert.equal(await tells(2, 'repair'), true);
    assert.equal(await tells(4, 'repair'), false);
    assert.equal(await tells(6, 'change'), true);
    assert.equal(await tells(65, 'repair'), false);
    assert.equal(await tells(66, 'repair'), true);
  });

  it('deletes stale flows of UDP if that is asked for, and no others', async () => {
    const lab = labOf(() => sourceOf([[TCP, UDP]]), 'delete-udp');
    await lab.read();
    assert.deepEqual(lab.deleted, [UDP]);
    const said = lab.lines.map(({ msg }) => String(msg).split(':')[0]);
    assert.deepEqual(said, [
      '1 connection',
      'deleted from conntrack, because they still had the verdict from before the change',
    ]);
  });

  it('that an address has made void is repeated for what it was asked for', async () => {
    let isFirst = true;
    const flows = async (_: unknown, take: (flow: Flow) => void, afterPart: () => void) => {
      take(TCP);
      afterPart();
      if (isFirst) lab.watch.onChange();
      isFirst = false;
    };
    const lab = labOf(() => ({ ...sourceOf([[TCP]]), flows }));
    await lab.read();
    while (lab.lines.length === 0) await setImmediate();
    assert.equal(lab.opened(), 2);
    assert.match(String(lab.lines[0]?.['msg']), /^1 connection: .*because it began before the change/);
    assert.equal((await lab.series('port_usage_ratio')).length, 1);
  });

  it('that has failed for a moment leaves what it was asked for to the next one', async () => {
    let isFirst = true;
    const lab = labOf(() => {
      if (!isFirst) return sourceOf([[TCP, UDP]]);
      isFirst = false;
      throw new NetlinkError('failed', 'no file descriptor is free');
    }, 'delete-udp');
    await lab.read('change');
    await lab.read('again');
    assert.deepEqual(lab.deleted, [UDP]);
    assert.ok(lab.lines.some(({ msg }) => /because it began before the change/.test(String(msg))));
  });

  it('says what it has deleted, also if the reading fails then', async () => {
    const flows = async (_: unknown, take: (flow: Flow) => void, afterPart: () => void) => {
      take(UDP);
      afterPart();
      throw new NetlinkError('failed', 'the table is gone');
    };
    const lab = labOf(() => ({ ...sourceOf([[UDP]]), flows }), 'delete-udp');
    await lab.read();
    const said = lab.lines.map(({ msg }) => String(msg).split(':')[0]);
    assert.deepEqual(said, [
      'deleted from conntrack, because they still had the verdict from before the change',
      'flows against the policy and ports in use are not counted',
    ]);
  });

  it('says once that there are too many flows, and shows no numbers then', async () => {
    let entries = 1;
    const lab = labOf(() => sourceOf([[UDP]], entries));
    await lab.read();
    assert.equal((await lab.series('flows_against_policy')).length, 6);
    entries = MOST_FLOWS + 1;
    await lab.read();
    await lab.read();
    assert.deepEqual(await lab.series('flows_against_policy'), []);
    assert.deepEqual(await lab.series('port_usage_ratio'), []);
    const [, ...said] = lab.lines.map(({ msg }) => msg);
    assert.deepEqual(said, [
      'conntrack holds more than 262144 flows: flows against the policy and ports in use are not counted',
    ]);
  });

  for (const [what, error, readings, said] of [
    [
      'that may pass, is tried again',
      new NetlinkError('failed', 'it fails'),
      2,
      /are not counted: it fails$/,
    ],
    ['of the kernel, is the last reading', new NetlinkError('unsupported', 'no module'), 1, /: no module$/],
    [
      'that is a bug, is no failure of the agent',
      new TypeError('it is undefined'),
      2,
      /: bug: TypeError: it/,
    ],
  ] as const)
    it(`that fails is one warning, and one ${what}`, async () => {
      const lab = labOf(() => {
        throw error;
      });
      await lab.read();
      await lab.read();
      assert.equal(lab.opened(), readings);
      assert.equal(lab.lines.length, 1);
      assert.match(String(lab.lines[0]?.['msg']), said);
    });
});
