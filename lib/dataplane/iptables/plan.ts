import type { Policy } from '../../policy/policy.ts';
import { type Draft, type Plan, unplanned } from '../dataplane.ts';
import type { RuleOptions } from '../options.ts';
import { type ChainRule, renderChain, renderJump, secondChain } from './chain.ts';
import type { IptablesObservation } from './observe.ts';
import { type KernelRule, keyOf, quoteWords, sameRule } from './rule.ts';

/** A draft, the input of iptables-restore, and the chains to delete once that is carried out. */
export interface ChainDraft extends Draft {
  readonly script: string;
  readonly deletes: readonly string[];
}

/**
 * The plan after which the kernel holds exactly the policy; undefined if it does already.
 *
 * @param isUndeletable the chains that iptables does not delete, because a rule leads to them: empty ones are no difference
 * @throws {DataplaneError} if the rules could not have an effect
 */
export function plan(
  observed: IptablesObservation,
  policy: Policy,
  options: RuleOptions,
  isUndeletable: (chain: string) => boolean,
): ChainDraft | undefined {
  const { chain } = options;
  const { rules: current = [], unreached, jumps, chains, obstacle } = observed;
  if (obstacle !== undefined) throw obstacle;
  const wanted = renderChain(policy, options);
  const rewrite = observed.rules === undefined || !sameRules(current, wanted);
  const jump = renderJump(chain);
  const jumpRight = jumps.length === 1 && sameRule(jumps[0] ?? '', jump);
  const second = secondChain(chain);
  const unneeded = chains.includes(second) && !needsSecond(chain, wanted) ? [second] : [];
  const oldJumps = jumpRight ? [] : jumps;
  const isLeftOver = unneeded.some(
    (name) => unreached === undefined || unreached.length > 0 || !isUndeletable(name),
  );
  if (!rewrite && jumpRight && !isLeftOver) return undefined;
  return {
    family: observed.family,
    found: [
      ...(observed.rules === undefined ? (['no readable chain'] as const) : []),
      ...(observed.rules !== undefined && rewrite ? (['rules differ'] as const) : []),
      ...(jumps.length === 0 ? (['jump missing'] as const) : []),
      ...(jumps.length > 0 && !jumpRight ? (['jump outdated'] as const) : []),
      ...(isLeftOver && unreached !== undefined ? (['chain left over'] as const) : []),
    ],
    ...compare(observed, wanted, jump),
    script: transaction([
      ...(rewrite ? makeChains(chain, wanted) : []),
      ...declarations(...unneeded),
      ...deletions(oldJumps),
      ...(jumpRight ? [] : [`-A POSTROUTING ${jump}`]),
    ]),
    deletes: unneeded,
  };
}

/** The declarations empty the chains; the rules below fill them within the same transaction. */
function makeChains(chain: string, rules: readonly ChainRule[]): readonly string[] {
  const second = secondChain(chain);
  return [
    ...declarations(chain, ...(needsSecond(chain, rules) ? [second] : [])),
    ...rules.map((rule) => `-A ${rule.chain} ${rule.spec}`),
  ];
}

function needsSecond(chain: string, rules: readonly ChainRule[]): boolean {
  return rules.some((rule) => rule.chain === secondChain(chain));
}

function declarations(...chains: readonly string[]): readonly string[] {
  return chains.map((chain) => `:${chain} - [0:0]`);
}

/**
 * Deletes all jumps, also a correct one, which is then added again: of two agents at the same time, the second one then
 * fails as a whole. If each kept a jump, none might be left.
 */
function deletions(jumps: readonly string[]): readonly string[] {
  return jumps.map((spec) => `-D POSTROUTING ${quoteWords(spec)}`);
}

/** The plan that removes jumps and chains; undefined if there are none. */
export function planRemoval(observed: IptablesObservation): ChainDraft | undefined {
  const { family, jumps, chains } = observed;
  if (jumps.length === 0 && chains.length === 0) return undefined;
  return {
    family,
    found: ['chain left over'],
    ...compare(observed, [], undefined),
    script: transaction([...declarations(...chains), ...deletions(jumps)]),
    deletes: chains,
  };
}

type Comparison = Pick<Plan, 'added' | 'removed' | 'kept' | 'current' | 'wanted'>;

/** What changes, and jumps and rules as `iptables -S` prints them, before and after; a rule that stays has the same text in both. */
function compare(
  { rules = [], unreached = [], jumps }: IptablesObservation,
  wanted: readonly ChainRule[],
  jump: string | undefined,
): Comparison {
  const found = [...rules, ...unreached];
  const keys = new Set(found.map(keyOf));
  const specs = new Map(wanted.map((rule) => [keyOf(rule), rule.spec]));
  const added = wanted.filter((rule) => !keys.has(keyOf(rule)));
  const isRight = (spec: string) => jump !== undefined && sameRule(spec, jump);
  return {
    added: added.map(({ spec, entry }) => ({ text: spec, entry })),
    removed: found.filter((rule) => !specs.has(keyOf(rule))).map(({ spec }) => unplanned(spec)),
    kept: wanted.length - added.length,
    current: [
      ...jumps.map((spec) => `-A POSTROUTING ${isRight(spec) ? jump : spec}`),
      ...found.map((rule) => `-A ${rule.chain} ${specs.get(keyOf(rule)) ?? rule.spec}`),
    ],
    wanted: [
      ...(jump === undefined ? [] : [unplanned(`-A POSTROUTING ${jump}`)]),
      ...wanted.map(({ chain, spec, entry }) => ({ text: `-A ${chain} ${spec}`, entry })),
    ],
  };
}

function transaction(lines: readonly string[]): string {
  return ['*nat', ...lines, 'COMMIT', ''].join('\n');
}

function sameRules(current: readonly KernelRule[], wanted: readonly ChainRule[]): boolean {
  return (
    current.length === wanted.length &&
    wanted.every(({ chain, spec }, index) => {
      const other = current[index];
      return chain === other?.chain && sameRule(spec, other.spec);
    })
  );
}

/** With these options, iptables-restore or ip6tables-restore skips the rules of the other family; see iptables(8). */
const ONLY = { IPv4: '-4', IPv6: '-6' } as const;
const RESTORE_TOOL = { IPv4: 'iptables-restore', IPv6: 'ip6tables-restore' } as const;

/**
 * The input of iptables-restore that makes chain and jump on a node that has neither. With policies of both families,
 * ip6tables-restore reads the same text.
 */
export function renderChains(policies: readonly Policy[], options: RuleOptions): string {
  const { chain } = options;
  const isDeclaration = (line: string) => line.startsWith(':');
  const lines = policies.flatMap((policy) => {
    const only = policies.length > 1 ? `${ONLY[policy.family]} ` : '';
    const made = [...makeChains(chain, renderChain(policy, options)), `-A POSTROUTING ${renderJump(chain)}`];
    return made.map((line) => (isDeclaration(line) ? line : `${only}${line}`));
  });
  const tools = policies.map(({ family }) => `${RESTORE_TOOL[family]} --noflush`).join(' and ');
  const note = `# Input of ${tools}; without --noflush, all other rules of nat are deleted.\n`;
  const rules = lines.filter((line) => !isDeclaration(line));
  return `${note}${transaction([...new Set(lines.filter(isDeclaration)), ...rules])}`;
}
