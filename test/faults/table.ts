/** The end of the path of a test file, and a pattern of the names of the tests to run of it. */
export type Tests = readonly [file: string, names: string];

/** A way to break the agent, and the tests that must notice it. */
export interface Fault {
  /** What the broken code does. */
  readonly name: string;
  /**
   * Code and what to put in its place. Exactly one of these stands in cmd or lib, and once; white space does not count.
   * There are several if revisions differ.
   */
  readonly edits: readonly (readonly [code: string, broken: string])[];
  /** All of them must fail. */
  readonly noticedBy: readonly Tests[];
}

const ALL = '.';

/** The faults in the order of the data's way: read, validate, merge, compile, write, repair, end. */
export const FAULTS: readonly Fault[] = [
  {
    name: 'volume version: ..data may move while it is read',
    edits: [['if (dataLink(dir) !== id) throw new ChangedWhileRead();', '']],
    noticedBy: [['config/read.test.ts', ALL]],
  },
  {
    name: 'volume version: a volume whose ..data is gone counts as an empty directory',
    edits: [["if (id === undefined && projected) throw new BrokenVolume('is gone from');", '']],
    noticedBy: [
      ['config/read.test.ts', ALL],
      ['e2e/agent.test.ts', 'ends with exit code 3 when ..data goes away'],
    ],
  },
  {
    name: 'volume version: a link may lead out of the config directory',
    edits: [['if (!opened.startsWith(home + sep))', 'if (opened === home)']],
    noticedBy: [
      ['config/read.test.ts', ALL],
      ['e2e/bad-input.test.ts', 'a link out of the volume'],
    ],
  },
  {
    name: 'limit: a config file may list one CIDR too many',
    edits: [['const excess = items[limit];', 'const excess = items[limit + 1];']],
    noticedBy: [
      ['config/validate.test.ts', ALL],
      ['e2e/bad-input.test.ts', '65 entries without cidrLimit'],
    ],
  },
  {
    name: 'CIDR: host bits are accepted',
    edits: [['if (network !== value) {', 'if (network > value) {']],
    noticedBy: [['cidr/prefix.test.ts', ALL]],
  },
  {
    name: 'CIDR: entries of a family that is off are accepted',
    edits: [['if (!families.includes(family)) {', 'if (families.length === 0) {']],
    noticedBy: [['config/validate.test.ts', ALL]],
  },
  {
    name: 'conflict: a prefix in both lists is only a duplicate',
    edits: [
      [
        'repeats.push(first.list === item.list ? duplicate(item, first) : inBothLists(item, first));',
        'repeats.push(duplicate(item, first));',
      ],
      [
        'yield first.list === item.list ? duplicate(item, first) : inBothLists(item, first);',
        'yield duplicate(item, first);',
      ],
    ],
    noticedBy: [
      ['config/conflicts.test.ts', ALL],
      ['e2e/bad-input.test.ts', 'one prefix in both lists'],
    ],
  },
  {
    name: 'conflict: --strict changes nothing',
    edits: [
      [
        "return problem.severity === 'warning' ? { ...problem, severity: 'error' } : problem;",
        'return problem;',
      ],
      ["return found.severity === 'warning' ? { ...found, severity: 'error' } : found;", 'return found;'],
    ],
    noticedBy: [['config/load.test.ts', ALL]],
  },
  {
    name: 'merge: an empty config is taken for none, and gets the defaults',
    edits: [
      ['if (configs.length === 0) {', 'if (configs.every((one) => one.nonMasqueradeCIDRs.length === 0)) {'],
    ],
    noticedBy: [['config/merge.test.ts', ALL]],
  },
  {
    name: 'keys: one is left out of the JSON',
    edits: [
      [
        'const keys = KEYS.map((key) => key.json(config));',
        'const keys = KEYS.slice(1).map((key) => key.json(config));',
      ],
    ],
    noticedBy: [['config/keys.test.ts', ALL]],
  },
  {
    name: 'keys: one is left out of the log',
    edits: [
      [
        'const logged = KEYS.filter(({ logged = true }) => logged);',
        'const logged = KEYS.slice(1).filter(({ logged = true }) => logged);',
      ],
    ],
    noticedBy: [['config/keys.test.ts', ALL]],
  },
  {
    name: 'keys: one is left out of the hash',
    edits: [['const set = KEYS.filter(', 'const set = KEYS.slice(1).filter(']],
    noticedBy: [['config/keys.test.ts', ALL]],
  },
  {
    name: 'keys: one is left out of the status page',
    edits: [['const shown = KEYS.filter(', 'const shown = KEYS.slice(5).filter(']],
    noticedBy: [['config/keys.test.ts', ALL]],
  },
  {
    name: 'keys: one is left out of the written config file',
    edits: [['const keys = KEYS.filter(', 'const keys = KEYS.slice(1).filter(']],
    noticedBy: [['config/keys.test.ts', ALL]],
  },
  {
    name: 'keys: a list of CIDRs may say the same twice without a conflict',
    edits: [['for (const list of OTHER_LISTS)', 'for (const list of OTHER_LISTS.slice(1))']],
    noticedBy: [['config/conflicts.test.ts', ALL]],
  },
  {
    name: 'keys: other programs may get one that they do not know, without a warning',
    edits: [
      ['if (otherAgentsDo === undefined || at === undefined) return [];', 'if (at !== undefined) return [];'],
    ],
    noticedBy: [['cmd/golden.test.ts', 'readers that do not know']],
  },
  {
    name: 'folders: the arithmetic of prefixes opens a socket',
    edits: [
      [
        'export function covers(outer: Prefix, inner: Prefix): boolean {',
        "export function listen() { return import('node:net').then(({ createServer }) => createServer().listen()); }\nexport function covers(outer: Prefix, inner: Prefix): boolean {",
      ],
    ],
    noticedBy: [['unit/architecture.test.ts', ALL]],
  },
  {
    name: 'metrics: one is declared and never set',
    edits: [["metrics.set('config_files', {}, config.configFileNames.length);", '']],
    noticedBy: [['status/metrics.test.ts', ALL]],
  },
  {
    name: 'check: an emptied list is as good as any',
    edits: [['if (isInside || isMeant) return undefined;', 'return undefined;']],
    noticedBy: [
      ['policy/checks.test.ts', ALL],
      ['e2e/agent.test.ts', 'leaves nothing alone'],
    ],
  },
  {
    name: 'assertion: what no entry decides at the end of the range is forgotten',
    edits: [['if (next <= last) yield { first: next, last, entry: undefined };', '']],
    noticedBy: [['policy/assertions.test.ts', ALL]],
  },
  {
    name: 'verdict: link-local is left alone only if it is to be masqueraded',
    edits: [
      ['...(isLinkLocalMasqueraded ? [] : [linkLocal]),', '...(isLinkLocalMasqueraded ? [linkLocal] : []),'],
    ],
    noticedBy: [
      ['policy/policy.test.ts', ALL],
      ['e2e/golden.test.ts', 'chain of the defaults'],
    ],
  },
  {
    name: 'verdict: the widest prefix decides in the chain of iptables',
    edits: [
      [
        '? policy.entries.toSorted((a, b) => b.prefix.length - a.prefix.length)',
        '? policy.entries.toSorted((a, b) => a.prefix.length - b.prefix.length)',
      ],
    ],
    noticedBy: [['packets/verdicts.test.ts', ALL]],
  },
  {
    name: 'verdict: the widest prefix decides in the set of nftables',
    edits: [['return a.length - b.length;', 'return b.length - a.length;']],
    noticedBy: [
      ['policy/flatten.test.ts', ALL],
      ['kernel/random-nftables.test.ts', ALL],
    ],
  },
  {
    name: 'addresses: a destination with an address is masqueraded, also inside',
    edits: [
      [
        "verdicts.get(prefix) === undefined && verdicts.nearestWider(prefix)?.verdict !== 'not_masqueraded'",
        'true',
      ],
    ],
    noticedBy: [['policy/policy.test.ts', 'changes no verdict']],
  },
  {
    name: 'addresses: changes of the node are not followed',
    edits: [['if (check()) return;', 'return;']],
    noticedBy: [['packets/node-addresses.test.ts', 'before, during and after']],
  },
  {
    name: 'order: MASQUERADE comes first in the chain',
    edits: [
      [
        `return [
          ...entries.flatMap((entry) => renderEntry(entry, options, chain)),
          ...masquerade('', 'everything else is masqueraded (must be last in chain)', options).map(
            (spec) => ({ chain, spec, entry: undefined, verdict: 'masqueraded' }) as const,
          ),
        ];`,
        `return [
          ...masquerade('', 'everything else is masqueraded (must be last in chain)', options).map(
            (spec) => ({ chain, spec, entry: undefined, verdict: 'masqueraded' }) as const,
          ),
          ...entries.flatMap((entry) => renderEntry(entry, options, chain)),
        ];`,
      ],
    ],
    noticedBy: [['e2e/golden.test.ts', 'chain of the defaults']],
  },
  {
    name: 'comment: the name of a config file stands in it unescaped',
    edits: [["origin.configFile.replace(/[^A-Za-z0-9._-]/g, '_')", 'origin.configFile']],
    noticedBy: [['e2e/agent.test.ts', 'becomes a harmless comment']],
  },
  {
    name: 'ports: the ranges do not share the connections evenly',
    edits: [['left -= share.size;', '']],
    noticedBy: [['dataplane/ports.test.ts', ALL]],
  },
  {
    name: 'jump: traffic to the node itself takes it too',
    edits: [['{comment(why)} -m addrtype ! --dst-type LOCAL -j', '{comment(why)} -j']],
    noticedBy: [
      ['packets/own-addresses.test.ts', ALL],
      ['e2e/golden.test.ts', 'chain of the defaults'],
    ],
  },
  {
    name: 'jump: a missing one is not noticed',
    edits: [
      [
        "jumps.length === 1 && sameRule(jumps[0]?.spec ?? '', jump);",
        'jumps.length < 2 && sameRule(jumps[0]?.spec ?? jump, jump);',
      ],
    ],
    noticedBy: [['kernel/iptables.test.ts', 'repairs a deleted jump']],
  },
  {
    name: 'jump: an outdated or duplicated one stays',
    edits: [["jumps.length === 1 && sameRule(jumps[0]?.spec ?? '', jump);", 'jumps.length > 0;']],
    noticedBy: [
      ['kernel/iptables.test.ts', 'repairs a jump there three times'],
      ['kernel/iptables.test.ts', 'repairs the jump of ip-masq-agent-v2 in place'],
    ],
  },
  {
    name: 'transaction: all other rules of nat go',
    edits: [["['--noflush', '--wait', LOCK_WAIT]", "['--wait', LOCK_WAIT]"]],
    noticedBy: [['kernel/iptables.test.ts', 'repairs a flushed chain']],
  },
  {
    name: 'transaction: the chain is written before the jump, not with it',
    edits: [
      [
        '...(jumpRight ? [] : replaceJumps(observed.jumps, jump)),',
        "...(jumpRight ? [] : ['COMMIT', '*nat', ...replaceJumps(observed.jumps, jump)]),",
      ],
      [
        '...(jumpRight ? [] : [...deleteJumps(observed),',
        "...(jumpRight ? [] : ['COMMIT', '*nat', ...deleteJumps(observed),",
      ],
    ],
    noticedBy: [['kernel/iptables.test.ts', 'reports a rule that went away']],
  },
  {
    name: 'idempotence: rules are written although nothing differs',
    edits: [['if (!rewrite && jumpRight && !isLeft) return undefined;', '']],
    noticedBy: [
      ['kernel/iptables.test.ts', 'leaves the counters alone'],
      ['e2e/golden.test.ts', 'says that nothing'],
    ],
  },
  {
    name: 'drift: what another program changed is logged as a change of the config',
    edits: [['drifted: hasDrifted(observed, policy, applied)', 'drifted: false']],
    noticedBy: [['e2e/drift.test.ts', 'is repaired, told with the program']],
  },
  {
    name: 'reading back: what another program has changed again is taken for repaired',
    edits: [['return differing.length === 0;', 'return true;']],
    noticedBy: [['agent/reconcile.test.ts', 'says so if another program']],
  },
  {
    name: 'whole: what cannot be changed singly is tried singly again and again',
    edits: [['whole.add(plan.family);', '']],
    noticedBy: [
      ['agent/reconcile.test.ts', 'writes everything anew'],
      ['e2e/contested.test.ts', 'written anew, whole'],
    ],
  },
  {
    name: 'tool: one that writes nothing is believed',
    edits: [['dataplane.iptables && hasWrittenNothing(before, observed)', 'canTell === undefined']],
    noticedBy: [['agent/reconcile.test.ts', 'gives up a tool that writes nothing']],
  },
  {
    name: 'events: changes that a sync has covered lead to another one',
    edits: [
      [
        'return covered === undefined || ((id - covered) | 0) > 0;',
        'return covered === undefined || id >= 0;',
      ],
    ],
    noticedBy: [['agent/kernel-events.test.ts', 'unless a sync has covered them']],
  },
  {
    name: 'events: syncs follow each other without a pause',
    edits: [['Math.min(pause, LONGEST_PAUSE_MS)', 'Math.min(pause, 0)']],
    noticedBy: [['agent/kernel-events.test.ts', 'wait']],
  },
  {
    name: 'events: what another program touches in the table is taken for what the agent has written',
    edits: [
      ['const foreign = items.filter(({ port }) =>', 'const foreign = items.filter(({ port }) => false &&'],
    ],
    noticedBy: [['dataplane/netlink.test.ts', 'is unknown without a watch']],
  },
  {
    name: 'events: what the kernel drops behind lost events is forgotten',
    edits: [['lost = isLosing = true;', 'lost = true;']],
    noticedBy: [['netlink/watch.test.ts', 'until all that waits has been read']],
  },
  {
    name: 'last reading: what was read while the rules changed is remembered',
    edits: [['if (touched.rules) continue;', '']],
    noticedBy: [['dataplane/last-reading.test.ts', 'is made again if rules were touched meanwhile']],
  },
  {
    name: 'elements: those of a set that was made again are taken for those of the old one',
    edits: [["kind === 'objects' || (set === SET", "(kind === 'objects' && false) || (set === SET"]],
    noticedBy: [['dataplane/netlink.test.ts', 'is unknown without a watch']],
  },
  {
    name: 'readiness: an agent whose rules are undone all the time is ready',
    edits: [['if (!contest.isContested(now)) return', 'if (now >= 0) return']],
    noticedBy: [['status/health.test.ts', 'while another program changes']],
  },
  {
    name: 'readiness: a fight is over as soon as one sync has found the rules',
    edits: [['else if (now - this.#lastAt >= CONTESTED_MS) {', 'else if (now >= this.#lastAt) {']],
    noticedBy: [['status/contest.test.ts', 'just after a fight']],
  },
  {
    name: 'retry: a busy kernel ends the agent at once',
    edits: [["return ['busy', 'raced', 'exhausted']", "return ['raced', 'exhausted']"]],
    noticedBy: [['agent/retry.test.ts', ALL]],
  },
  {
    name: 'foreign: the table of another program with the same name is replaced',
    edits: [
      ['if (table?.isOurs === false) throw notOurs(family);', ''],
      ['if (table !== undefined) refuseForeign(family, table);', ''],
    ],
    noticedBy: [
      ['kernel/nftables.test.ts', 'touches nothing of a table|does not touch a table with its name'],
    ],
  },
  {
    name: 'leftovers: they are removed before the first sync',
    edits: [
      [
        'const after = flags.once ? afterOnly(surroundings) : afterEach(surroundings);',
        `const { Leftovers: Early } = await import('../../../lib/watchers/leftovers.ts');
         const { dataplane: opened } = await openDataplane(dataplane, host);
         await new Early(dataplane, host, log, stopSignal, cleared).removeOnce(opened, []);
         const after = flags.once ? afterOnly(surroundings) : afterEach(surroundings);`,
      ],
    ],
    noticedBy: [['e2e/nftables.test.ts', 'makes the new rules before the old ones go']],
  },
  {
    name: 'leftovers: what comes back is removed again and again',
    edits: [
      [
        'const known = locations.filter((location) => this.#cleared.has(ruleLocationName(location)));',
        'const known: RuleLocation[] = []; this.#cleared.clear();',
      ],
    ],
    noticedBy: [['e2e/foreign.test.ts', 'are removed once, and if they come back they stay']],
  },
  {
    name: 'exit code: 2 and 3 are swapped',
    edits: [
      [
        'EXIT = { ok: 0, system: 1, usage: 2, config: 3, different: 4 }',
        'EXIT = { ok: 0, system: 1, usage: 3, config: 2, different: 4 }',
      ],
    ],
    noticedBy: [
      ['e2e/bad-input.test.ts', 'an unknown key'],
      ['e2e/bad-input.test.ts', 'frobnicate'],
    ],
  },
  {
    name: 'exit code: 1 and 4 are swapped',
    edits: [
      [
        'EXIT = { ok: 0, system: 1, usage: 2, config: 3, different: 4 }',
        'EXIT = { ok: 0, system: 4, usage: 2, config: 3, different: 1 }',
      ],
    ],
    noticedBy: [
      ['e2e/golden.test.ts', 'shows on a new node'],
      ['e2e/golden.test.ts', 'ends with exit code 1'],
    ],
  },
  {
    name: 'termination message: it is longer than kubelet keeps',
    edits: [
      [
        'if (Buffer.byteLength(next) + (rest > 0 ? Buffer.byteLength(more(rest)) : 0) > MAX_BYTES) {',
        'if (rest < 0) {',
      ],
    ],
    noticedBy: [['termination.test.ts', ALL]],
  },
  {
    name: 'log: control characters reach the terminal',
    edits: [
      [
        "const write = format === 'json' ? escapeJson : formatText;",
        "const write = format === 'json' ? String : formatText;",
      ],
      ["format === 'json' ? escapeJson :", "format === 'json' ? String :"],
    ],
    noticedBy: [['log.test.ts', ALL]],
  },
  {
    name: 'lock: a process of any user counts as an agent',
    edits: [["if (uid !== 0) return { kind: 'unproven'", "if (uid < 0) return { kind: 'unproven'"]],
    noticedBy: [['e2e/lock.test.ts', 'a process of another user']],
  },
  {
    name: 'pods: a bridge of Docker counts as one of pods',
    edits: [['bridges.filter(({ name }) => !FOREIGN_BRIDGE.test(name))', 'bridges']],
    noticedBy: [
      ['node/pod-routes.test.ts', 'are none of Docker'],
      ['e2e/masqueraded-pods.test.ts', 'finds nothing where Docker'],
    ],
  },
  {
    name: 'pods: what is accepted is told too',
    edits: [
      ['union(notMasqueradedDestinations(policy), setOf(accepted))', 'notMasqueradedDestinations(policy)'],
    ],
    noticedBy: [
      ['policy/masqueraded-pod-routes.test.ts', 'if they are accepted'],
      ['e2e/masqueraded-pods.test.ts', 'accepts ranges that are meant'],
    ],
  },
  {
    name: 'invalid packets: those of the node are taken too',
    edits: [["{ ...local, key: 'fib saddr type' },", '']],
    noticedBy: [['packets/invalid-packets.test.ts', 'are counted|are dropped']],
  },
  {
    name: 'invalid packets: drop only counts',
    edits: [["...(invalidPackets === 'drop' ? [{ kind: 'verdict', verdict: 'drop' } as const] : []),", '']],
    noticedBy: [['packets/invalid-packets.test.ts', 'are dropped']],
  },
];
