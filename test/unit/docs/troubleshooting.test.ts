import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { diffText } from '../../../cmd/ip-masq-agent/diff/diff-text.ts';
import { answerText } from '../../../cmd/ip-masq-agent/explain/explain-text.ts';
import { answer } from '../../../cmd/ip-masq-agent/explain/live.ts';
import { reconcile } from '../../../lib/agent/reconcile.ts';
import { describeRemoval } from '../../../lib/agent/remove.ts';
import { InvalidConfigError } from '../../../lib/config/invalid-config.ts';
import { mergeSources } from '../../../lib/config/load.ts';
import { formatProblem } from '../../../lib/config/problem.ts';
import type { Plan } from '../../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../../lib/dataplane/error.ts';
import { plan } from '../../../lib/dataplane/iptables/plan.ts';
import { createTool } from '../../../lib/dataplane/iptables/tool.ts';
import { explainForeign } from '../../../lib/neighbours/find.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { checksText, readiness } from '../../../lib/status/health.ts';
import { addressOf, baseChainOf, fakeHost } from '../neighbours/support.ts';
import { blocks, read } from './markdown.ts';
import {
  agentLog,
  CONFIG_OPTIONS,
  directoryFailure,
  failureOf,
  fakeDataplane,
  listenFailure,
  listings,
  modeLine,
  observed,
  sourcesLog,
  usageFailure,
  watchLog,
} from './messages.ts';

const NEVER = new AbortController().signal;
const CHAIN = 'IP-MASQ-AGENT';
const OPTIONS = { mode: 'auto', chain: CHAIN, randomFully: true, toPorts: [] } as const;

/** What the tools print, as seen. */
const TOOLS = {
  denied:
    'iptables v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n',
  noLockFile: "Fatal: can't open lock file /run/xtables.lock: Read-only file system\n",
  busyLock:
    "Can't lock /run/xtables.lock: Resource temporarily unavailable\nAnother app is currently holding the xtables lock. Stopped waiting after 1s.\n",
  noMatch: `iptables-nft-restore: line 5: RULE_APPEND failed (No such file or directory): rule in chain ${CHAIN}\n`,
  noIPv6: 'ip6tables/1.8.9 Failed to initialize nft: Protocol not supported\n',
  referenced: `iptables-nft-restore: line 4: CHAIN_DEL failed (Device or resource busy): chain ${CHAIN}\n`,
};

/** Every message that the page quotes, as the code makes it. */
const MESSAGES: Readonly<Record<string, () => string | Promise<string>>> = {
  'a right that is missing': () => failureOf(() => tool('-nft', TOOLS.denied).list(CHAIN)),
  'a lock that is not mounted': () => failureOf(() => tool('-legacy', TOOLS.noLockFile).list(CHAIN)),
  'a port that is in use': () => listenFailure(9614),
  'a module that is missing': () =>
    failureOf(() => reconciled(() => tool('-nft', TOOLS.noMatch).restore(''))),
  'an unknown flag': () => usageFailure('--enable-ip6'),
  'a boolean in two words': () => usageFailure('--enable-ipv6', 'false'),
  'an invalid config': () => {
    const error = invalid('ip-masq-operator', 'nonMasqueradeCIDRs:\n  - 172.16.0.0/12\n  - 10.0.0.1/8\n');
    return [`${error.message}; the rules applied last stay`, ...error.problems.map(formatProblem)].join('\n');
  },
  'IPv6 that is off': () => onlyProblem('ip-masq-operator', 'nonMasqueradeCIDRs: ["fd00::/8"]\n'),
  'an empty list item': () => onlyProblem('ip-masq-agent', 'nonMasqueradeCIDRs:\n  -\n'),
  'a directory that is missing': async () => lastLine(await directoryFailure('missing')),
  'a volume that has broken': async () => lastLine(await directoryFailure('broken')),
  'a node without rules': () => {
    const kernel = { state: 'no chain', verdict: 'return', rule: undefined } as const;
    return answerText({ ...answerTo('8.8.8.8'), live: { ...LIVE, kernel, agrees: false } });
  },
  'a rule of others that comes first': () =>
    live('8.8.8.8', '-A POSTROUTING -d 8.8.8.0/24 -j ACCEPT', `-A POSTROUTING -j ${CHAIN}`),
  'a rule of others that masquerades': () =>
    live('10.1.2.3', '-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE'),
  'a file whose name is no source’s': async () =>
    (await sourcesLog({ 'ip-masq.yaml': 'nonMasqueradeCIDRs: []\n' })).at(-1) ?? '',
  'no source': async () => (await sourcesLog({})).join('\n'),
  'a directory that cannot be watched': async () => {
    const reason = 'ENOSPC: System limit for number of file watchers reached, watch';
    return (await watchLog('/etc/config', reason)).join('\n');
  },
  drift: async () => {
    const plans = [undefined, planOf({ found: ['rules differ'], added: 2, removed: 1, kept: 4 })];
    const log = await agentLog(fakeDataplane({ observe: async () => observed(plans.shift()) }), 2);
    return log.at(-1) ?? '';
  },
  'two agents at the same moment': async () => {
    const spoilt = planOf({ found: ['jump missing'], added: 0, removed: 0, kept: 5 });
    const plans = [spoilt, spoilt];
    const log = await agentLog(fakeDataplane({ observe: async () => observed(plans.shift()) }));
    return log.find((line) => line.startsWith('trying')) ?? '';
  },
  'a busy lock': async () => {
    const plans = [1, 2].map(() => planOf({ found: ['rules differ'], added: 1, removed: 0, kept: 5 }));
    let attempts = 0;
    const apply = async () => {
      attempts += 1;
      if (attempts === 1) await tool('-legacy', TOOLS.busyLock).restore('');
    };
    const log = await agentLog(fakeDataplane({ observe: async () => observed(plans.shift()), apply }));
    return log.find((line) => line.startsWith('trying')) ?? '';
  },
  'a lock that stays busy': async () => {
    const said = await failureOf(() => reconciled(() => tool('-legacy', TOOLS.busyLock).restore(''), 1));
    return said.replace('after 1 ms', 'after 30000 ms');
  },
  'the mode of kubelet': () => modeLine({ 'iptables-nft': '-N KUBE-IPTABLES-HINT\n' }),
  'the mode with more rules': () =>
    modeLine({
      ...listings('iptables-nft', 2),
      ...listings('iptables-legacy', 40),
    }),
  'an address of a family that is off': () => answerText({ ...answerTo('2001:db8::1'), isKept: false }),
  'a kernel without IPv6': () => failureOf(() => tool('-nft', TOOLS.noIPv6, 'IPv6').list(CHAIN)),
  'a sync that is late': () => {
    const policy = { family: 'IPv4', entries: [] } as const;
    const status = { policy, syncedAt: 0, lastSuccess: 0, lastChange: undefined, lastFound: [] };
    return checksText(readiness({ families: new Map([['IPv4', status]]) }, ['IPv4'], 60_000, 190_200), true);
  },
  'a chain that others lead into': async () => {
    const error = await tool('-nft', TOOLS.referenced)
      .restore('')
      .catch((error: unknown) => error);
    assert.ok(error instanceof DataplaneError);
    const outcome = { kind: 'failed', error } as const;
    return describeRemoval({ family: 'IPv4', where: 'iptables 1.8.9 (nft)', outcome });
  },
};

describe('the page on troubleshooting', () => {
  it('quotes messages as the agent makes them, each of them once, and no other', async () => {
    const made: string[] = [];
    for (const message of Object.values(MESSAGES)) made.push((await message()).trimEnd());
    const quoted = blocks(read('examples/troubleshooting.md'), 'text').map((text) => text.trimEnd());
    assert.deepEqual(quoted.toSorted(), made.toSorted());
  });
});

describe('the migration page', () => {
  it('shows how a rule of v1 and its successor look in a diff', () => {
    const spec =
      '-d 10.0.0.0/8 -m comment --comment "ip-masq-agent: local traffic is not subject to MASQUERADE" -j RETURN';
    const source = { name: 'ip-masq-agent', text: 'nonMasqueradeCIDRs:\n  - 10.0.0.0/8\n' };
    const { config } = mergeSources([source], CONFIG_OPTIONS);
    assert.ok(config);
    const policy = compilePolicy(config, 'IPv4');
    const wanted = plan({ family: 'IPv4', rules: [spec], jumps: [] }, policy, OPTIONS);
    const text = diffText('x', [{ family: 'IPv4', plan: wanted }], { colour: false });
    const [block = ''] = blocks(read('examples/migration.md'), 'text');
    for (const line of block.trimEnd().split('\n'))
      assert.ok(text.split('\n').includes(line), `${line}\n${text}`);
  });
});

const LIVE = {
  isLocal: false,
  kernel: { state: 'applied', verdict: 'return', rule: '' },
  agrees: true,
  foreign: { masquerading: [], endedBy: undefined },
  unread: [],
} as const;

/** What a source without exceptions says of an address. */
function answerTo(text: string) {
  const source = { name: 'ip-masq-operator', text: 'nonMasqueradeCIDRs: [10.0.0.0/8]\n' };
  const { config } = mergeSources([source], CONFIG_OPTIONS);
  assert.ok(config);
  return answer(config, addressOf(text), true);
}

/** What `explain --live` says besides config and kernel, where POSTROUTING has these rules. */
function live(address: string, ...rules: readonly string[]): string {
  const foreign = explainForeign([baseChainOf(rules)], addressOf(address));
  const said = answerText({ ...answerTo(address), live: { ...LIVE, foreign } });
  return said.split('\n').slice(2).join('\n');
}

/** iptables, where it fails with these words. */
function tool(suffix: string, stderr: string, family: 'IPv4' | 'IPv6' = 'IPv4') {
  const name = family === 'IPv4' ? 'iptables' : 'ip6tables';
  const failing = { code: 4, stderr };
  const answers = { [`${name}${suffix}`]: failing, [`${name}${suffix}-restore`]: failing };
  return createTool(fakeHost(answers), family, suffix);
}

async function reconciled(apply: () => Promise<void>, timeoutMs = 30_000): Promise<void> {
  const observe = async () => observed(planOf({ found: ['rules differ'], added: 1, removed: 0, kept: 0 }));
  const goals = [{ family: 'IPv4', policy: { family: 'IPv4', entries: [] } }] as const;
  const options = { timeoutMs, signal: NEVER, recall: false, onRetry: () => {}, onApply: () => {} };
  await reconcile(async () => fakeDataplane({ observe, apply }), goals, options);
}

function planOf(counts: {
  readonly found: Plan['found'];
  readonly added: number;
  readonly removed: number;
  readonly kept: number;
}): Plan {
  const rules = (count: number) => Array.from({ length: count }, () => ({ text: 'rule', entry: undefined }));
  const { found, kept } = counts;
  return {
    family: 'IPv4',
    found,
    added: rules(counts.added),
    removed: rules(counts.removed),
    kept,
    current: [],
    wanted: [],
    remakes: true,
    recheck: found.includes('jump missing'),
    script: '',
  };
}

function invalid(name: string, text: string): InvalidConfigError {
  return new InvalidConfigError(mergeSources([{ name, text }], CONFIG_OPTIONS).problems);
}

function onlyProblem(name: string, text: string): string {
  const { problems } = invalid(name, text);
  assert.equal(problems.length, 1);
  return problems.map(formatProblem).join();
}

function lastLine(text: string): string {
  return text.split('\n').at(-1) ?? '';
}
