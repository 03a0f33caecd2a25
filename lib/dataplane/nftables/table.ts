import type { Family } from '../../cidr/address.ts';
import { PrefixMap } from '../../cidr/prefix-map.ts';
import { complement, formatRange, type Range } from '../../cidr/ranges.ts';
import type { Hook } from '../../netlink/replies.ts';
import { allowedSources, flatten } from '../../policy/flatten.ts';
import { type Entry, type Policy, verdictElsewhere } from '../../policy/policy.ts';
import { printable } from '../../text/escape.ts';
import { COMMENT_START } from '../dataplane.ts';
import type { RuleOptions } from '../options.ts';
import { renderedOnce } from '../rendered.ts';
import {
  CHAIN,
  FROM_SET,
  HOOK,
  INVALID_CHAIN,
  INVALID_HOOK,
  NFT_FAMILY,
  NOT_FROM_SET,
  SET,
  tableName,
} from './names.ts';
import { invalidRule, natRules, type OwnRule, type RuleInputs } from './rules.ts';
import {
  chainProperties,
  ruleText,
  setProperties,
  type Table,
  type TableChain,
  type TableRule,
  type TableSet,
  tableProperties,
} from './ruleset.ts';

/** The table of a policy. */
export interface PolicyTable extends Table {
  readonly comment: string;
  readonly sets: readonly MeantSet[];
  readonly chains: readonly MeantChain[];
  /** The ranges of the set of destinations, each with the entry that asks for it. */
  readonly segments: readonly (Range & { readonly entry: Entry })[];
  /** The chains with other names of the sets. */
  readonly chainsFor: (nameOf: (set: string) => string) => readonly MeantChain[];
}

/** What the agent writes has a comment each. */
export type MeantSet = TableSet & { readonly comment: string; readonly ranges: readonly Range[] };
export type MeantChain = Omit<TableChain, 'rules'> & {
  readonly comment: string;
  readonly hook: Hook;
  readonly rules: readonly (Omit<TableRule, 'expressions'> & Pick<OwnRule, 'expressions' | 'comment'>)[];
};

/**
 * The table in the order in which a packet meets it. A packet costs one lookup in the set, for any size of the set.
 * Exceptions are not in the set.
 */
export const renderTable = renderedOnce(render);

function render(policy: Policy, options: RuleOptions): PolicyTable {
  const { family } = policy;
  const segments = flatten(policy).filter(({ entry }) => entry.verdict === 'not_masqueraded');
  const from = sourcesOf(policy);
  const addresses = addressEntries(policy).map(({ prefix, as }) => {
    const address = as?.candidates?.[0];
    const why = `${address === undefined ? 'no address' : 'with the address'} in ${as?.range.text}`;
    return { prefix, address, why: as ? why : 'with the address of the link' };
  });
  const chainsFor = (nameOf: (set: string) => string) =>
    renderChains(
      {
        family,
        destinations: nameOf(SET),
        sources: from && { ...from, set: nameOf(from.set) },
        addresses,
      },
      options,
    );
  return {
    family,
    comment: commentOf('kept by ip-masq-agent, changes are undone'),
    flags: [],
    sets: [
      {
        name: SET,
        comment: commentOf('what the config leaves alone'),
        properties: [...setType(family), 'counter'],
        ranges: segments,
      },
      ...(from === undefined ? [] : [sourceSet(family, from)]),
    ],
    chains: chainsFor((name) => name),
    objects: [],
    others: 0,
    segments,
    chainsFor,
  };
}

/** The same table with other names of its sets. */
export function withNames(table: PolicyTable, nameOf: (set: MeantSet) => string): PolicyTable {
  const sets = table.sets.map((set) => ({ ...set, name: nameOf(set) }));
  const names = new Map(table.sets.map(({ name }, index) => [name, sets[index]?.name ?? name]));
  return { ...table, sets, chains: table.chainsFor((name) => names.get(name) ?? name) };
}

function renderChains(inputs: RuleInputs, options: RuleOptions): readonly MeantChain[] {
  const { invalidPackets = 'off' } = options;
  const chain = (name: string, what: string, hook: Hook, rules: readonly OwnRule[]): MeantChain => {
    const own = rules.map((rule) => ({ expressions: rule.expressions, comment: rule.comment, own: rule }));
    return { name, comment: commentOf(what), hook, rules: own };
  };
  return [
    chain(CHAIN, 'what is masqueraded', HOOK, natRules(inputs, options)),
    ...(invalidPackets === 'off'
      ? []
      : [chain(INVALID_CHAIN, 'what NAT does not see', INVALID_HOOK, [invalidRule(inputs, invalidPackets)])]),
  ];
}

function setType(family: Family): readonly string[] {
  return [`type ${NFT_FAMILY[family].type}`, 'flags interval'];
}

interface Sources {
  readonly set: string;
  readonly areAllowed: boolean;
  readonly ranges: readonly Range[];
}

/** One set: of the sources that are left alone, if nothing else is said of sources; otherwise of all others. */
function sourcesOf(policy: Policy): Sources | undefined {
  const allowed = allowedSources(policy);
  if (allowed === undefined) return undefined;
  return verdictElsewhere(policy) === 'masqueraded'
    ? { set: NOT_FROM_SET, areAllowed: false, ranges: complement(allowed).ranges }
    : { set: FROM_SET, areAllowed: true, ranges: allowed.ranges };
}

function sourceSet(family: Family, { set, areAllowed, ranges }: Sources): MeantSet {
  const comment = commentOf(`whose packets are ${areAllowed ? 'looked at' : 'left alone'}`);
  return { name: set, comment, properties: setType(family), ranges };
}

/**
 * The destinations that are masqueraded with an address of their own, the longest prefix first. They are rules, not elements
 * of a map: a rule counts, and all rules change at once, but a packet can miss an element that changes.
 */
function addressEntries({ entries }: Policy): readonly Entry[] {
  const masqueraded = entries.filter(({ verdict }) => verdict === 'masqueraded');
  const all = new PrefixMap<Entry>();
  for (const entry of masqueraded) all.set(entry.prefix, entry);
  return masqueraded
    .filter(({ prefix, as }) => all.nearestWider(prefix)?.as?.range !== as?.range)
    .toSorted((a, b) => b.prefix.length - a.prefix.length);
}

/** The input of nft -f that makes the tables of all policies, and replaces existing ones. */
export function renderTables(policies: readonly Policy[], options: RuleOptions): string {
  const tables = policies.map((policy) => {
    const name = tableName(policy.family);
    // Without the first line, the second fails if there is no table.
    return `add table ${name}\ndelete table ${name}\n${tableBlock(renderTable(policy, options))}`;
  });
  return `# nft -f replaces a table that is there at once; for a moment, packets may meet no rules of it.\n${tables.join('')}`;
}

/** A table as nft(8) lists it, without counts. */
export function tableBlock(table: Table): string {
  const { family } = table;
  const lines = [
    ...tableProperties(table),
    ...table.sets.flatMap((set) => {
      const texts = set.ranges?.map((range) => formatRange(family, range)) ?? [];
      const elements = texts.length === 0 ? [] : [`elements = { ${texts.join(', ')} }`];
      return block(`set ${printable(set.name)}`, [...setProperties(set), ...elements]);
    }),
    ...table.chains.flatMap((chain) =>
      block(`chain ${printable(chain.name)}`, [
        ...chainProperties(chain),
        ...chain.rules.map((one) => ruleText(one)),
      ]),
    ),
  ];
  return [...block(`table ${tableName(family)}`, lines), ''].join('\n');
}

function block(head: string, lines: readonly string[]): readonly string[] {
  return [`${head} {`, ...lines.map((line) => `\t${line}`), '}'];
}

function commentOf(text: string): string {
  return `${COMMENT_START}${text}`;
}
