import assert from 'node:assert/strict';
import type { AgentPod } from '../lab/agent.ts';
import { isIPv6Alone } from '../lab/cluster.ts';
import { debugOn } from '../lab/debug.ts';
import { kubectlCommands, pageText, sectionOf } from '../lab/documentation.ts';
import { rulesOf } from '../lab/own-rules.ts';
import {
  ALL_INSIDE,
  configFileText,
  PODS_INSIDE,
  packets,
  podsInside,
  untilPackets,
} from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';

/** One way to break the config files. */
interface Mistake {
  readonly name: string;
  make(lab: Lab): Promise<void>;
  /** What the termination message says. */
  readonly said: RegExp;
}

const MISTAKES: readonly Mistake[] = [
  written('a YAML error', () => 'nonMasqueradeCIDRs: [10.0.0.0/8\n', at('is not valid YAML')),
  written(
    'a broken assertion',
    (lab) => `masqueradeCIDRs: ${list(networks(lab, 1))}\n`,
    at('the assertion --must-not-masquerade=\\S+ is broken'),
  ),
  {
    name: 'a missing required config file',
    make: ({ agent }) => agent.remove('ip-masq-cloud'),
    said: /error: the config file ip-masq-cloud is not there, but --require-file names it/,
  },
];

const args = (lab: Lab) => [
  '--require-file=ip-masq-cloud',
  `--must-not-masquerade=${networks(lab, 1).join()}`,
  // Only an event of the file system can lead to a sync.
  '--resync-interval=24h',
];

scenario('a mistake ends the agents and changes no packet, and its repair brings them back', async (lab) => {
  const { agent } = lab;
  const configFiles = good(lab);
  await agent.deploy({ args: args(lab), configFiles });
  await untilPackets(lab, PODS_INSIDE);
  const before = await rulesOf(lab);
  const unchanged = async (when: string) => {
    assert.deepEqual(await rulesOf(lab), before, when);
    assert.deepEqual(await packets(lab), PODS_INSIDE, when);
  };

  for (const { name, make, said } of MISTAKES) {
    const broken = performance.now();
    await make(lab);
    await agent.podsAre(`in CrashLoopBackOff because of ${name}, and to say ${said}`, (pod) =>
      crashed(pod, said),
    );
    const crashedAfter = performance.now() - broken;
    if (name === MISTAKES[0]?.name) await explainsInDebugPod(lab);
    await unchanged(`after ${name}`);
    const repaired = performance.now();
    await repair(lab, configFiles);
    await agent.podsAre(`Ready after ${name} is repaired`, ({ isReady }) => isReady);
    const recoveredAfter = performance.now() - repaired;
    await unchanged(`after the repair of ${name}`);
    lab.measured(
      name,
      `CrashLoopBackOff after ${seconds(crashedAfter)}, recovered after ${seconds(recoveredAfter)}`,
    );
  }
});

/** What the documentation tells people to run while the container waits for its next start. */
async function explainsInDebugPod(lab: Lab): Promise<void> {
  const commands = kubectlCommands(await pageText('docs/runbook.md'));
  const debug = commands.find(([verb]) => verb === 'debug') ?? assert.fail('no such command');
  // Of the flags of an agent that does not run, people append those that are not the defaults.
  const [address, flags] = isIPv6Alone(lab.cluster)
    ? (['2001:db8::7', ['--enable-ipv6', '--enable-ipv4=false']] as const)
    : (['203.0.113.7', []] as const);
  for (const { node, uid } of await lab.agent.pods()) {
    const DIR = `/host/var/lib/kubelet/pods/${uid}/volumes/kubernetes.io~projected/config`;
    const log = await debugOn(lab, node, [...debug.slice(0, -1), address, ...flags], { DIR });
    assert.match(log, new RegExp(`^${address}: the config is invalid.*\n {2}masqueraded: `, 'm'));
    assert.match(log, /^ip-masq-operator:\d+:\d+: error: is not valid YAML/m);
  }
}

scenario(
  'the runbook: a config file that a controller writes again is left out, and brought back',
  async (lab) => {
    const { agent, kubectl } = lab;
    await agent.deploy({ configFiles: podsInside(lab), pace: 'shipped' });
    await untilPackets(lab, PODS_INSIDE);
    await agent.write('ip-masq-cloud', 'nonMasqueradeCIDRs: [10.0.0.1/8]\n');
    const said = at('.*', 'ip-masq-cloud');
    await agent.podsAre('in CrashLoopBackOff', (pod) => crashed(pod, said));
    assert.deepEqual(await packets(lab), PODS_INSIDE);

    const [list = [], owner = []] = await night('Whose config file is it');
    const [first, second] = (await kubectl.must(...list)).split('\n');
    assert.deepEqual(
      [first, second],
      ['cloud', 'operator'].map((name) => `ip-masq-${name} is the key ip-masq-${name} of ip-masq-${name}`),
    );
    assert.match(await kubectl.must(...owner), /manager: kubectl.*\n +operation: .*\n +time: /);

    const [remove = [], status = [], ...undo] = await night('Leave a config file out');
    await kubectl.must(...remove);
    await kubectl.must(...status);
    await agent.podsAre('Ready', ({ isReady }) => isReady);
    assert.deepEqual(await packets(lab), PODS_INSIDE);
    await agent.write('ip-masq-cloud', configFileText(lab, 'nodes'));
    for (const args of undo) await kubectl.must(...args);
    await untilPackets(lab, ALL_INSIDE);
  },
);

function night(heading: string): Promise<readonly (readonly string[])[]> {
  return sectionOf('docs/runbook.md', heading).then(kubectlCommands);
}

/** The error with its place, as the termination message and /readyz have it. */
function at(message: string, configFile = 'ip-masq-operator'): RegExp {
  return new RegExp(`${configFile}:\\d+:\\d+: error: ${message}`);
}

function written(name: string, text: (lab: Lab) => string, said: RegExp): Mistake {
  return { name, said, make: (lab) => lab.agent.write('ip-masq-operator', text(lab)) };
}

function good(lab: Lab) {
  return {
    'ip-masq-operator': `nonMasqueradeCIDRs: ${list([...networks(lab, 1), isIPv6Alone(lab.cluster) ? '2001:2::/48' : '198.18.0.0/15'])}\n`,
    'ip-masq-cloud': configFileText(lab, 'pods'),
  };
}

async function repair({ agent }: Lab, configFiles: ReturnType<typeof good>): Promise<void> {
  for (const configFile of ['ip-masq-operator', 'ip-masq-cloud'] as const)
    await agent.write(configFile, configFiles[configFile]);
}

function crashed({ container }: AgentPod, said: RegExp): boolean {
  const { state, lastState } = container ?? {};
  const end = lastState?.terminated;
  return state?.waiting?.reason === 'CrashLoopBackOff' && end?.exitCode === 3 && said.test(end.message ?? '');
}

/** Networks of the ranges for benchmarks (RFC 2544, RFC 5180), which no cluster uses. */
function networks({ cluster }: Lab, count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) =>
    isIPv6Alone(cluster) ? `2001:2:0:${(index + 1).toString(16)}::/64` : `198.18.${index}.0/24`,
  );
}

function list(items: readonly string[]): string {
  return JSON.stringify(items);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
