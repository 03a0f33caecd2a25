import type { Policy } from '../../policy/policy.ts';
import { type DifferenceKind, type Draft, type Plan, unplanned } from '../dataplane.ts';
import type { RuleOptions } from '../options.ts';
import { type ChainRule, renderChain, renderJump, secondChain } from './chain.ts';
import type { IptablesObservation } from './observe.ts';
import { type KernelRule, keyOf, sameRule } from './rule.ts';

/**
 * The plan after which the kernel holds exactly the policy; undefined if it does already.
 *
 * @throws {DataplaneError} if the rules could not have an effect
 */
export function plan(observed: IptablesObservation, policy: Policy, options: RuleOptions): Draft | undefined {
  const { chain } = options;
  const { rules: current = [], jumps, obstacle } = observed;
  if (obstacle !== undefined) throw obstacle;
  const wanted = renderChain(policy, options);
  const rewrite = observed.rules === undefined || !sameRules(current, wanted);
  const jump = renderJump(chain);
  const jumpRight = jumps.length === 1 && sameRule(jumps[0]?.spec ?? '', jump);
  // The kernel lists no rule behind a foreign rule of more than 32 KiB: a jump there would be added again and again. That
  // cannot be told from a foreign chain that leads to the agent's chain, so the jump goes first then too.
  const addJump = `${observed.callers.has(chain) ? '-I' : '-A'} POSTROUTING ${jump}`;
  const sweep = sweepSecond(observed, chain, wanted);
  const isLeft = observed.leftover !== undefined && sweep.length > 0;
  const byNumber = jumps.some(({ number }) => number !== undefined);
  if (!rewrite && jumpRight && !isLeft) return undefined;

  const comparison = compare(observed, wanted, jump);
  return {
    family: observed.family,
    found: [
      ...ruleDifferences(observed, comparison, rewrite),
      ...jumpDifferences(jumps, jump),
      ...(isLeft ? (['chain left over'] as const) : []),
    ],
    ...comparison,
    script: transaction(
      observed,
      byNumber
        ? [...removeChains(observed, chain), ...makeChains(chain, wanted), addJump]
        : [
            ...(rewrite ? makeChains(chain, wanted) : []),
            ...(rewrite || isLeft ? sweep : []),
            ...(jumpRight ? [] : [...deleteJumps(observed), addJump]),
          ],
    ),
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

/** Empties and deletes the second chain, unless it is needed, or not there. If a foreign rule leads to it, it can only be emptied. */
function sweepSecond(
  { hasSecond, leftover, callers }: IptablesObservation,
  chain: string,
  rules: readonly ChainRule[],
): readonly string[] {
  const second = secondChain(chain);
  if (!hasSecond || needsSecond(chain, rules)) return [];
  if (!callers.has(second)) return [...declarations(second), `-X ${second}`];
  return leftover?.length === 0 ? [] : declarations(second);
}

function declarations(...chains: readonly string[]): readonly string[] {
  return chains.map((chain) => `:${chain} - [0:0]`);
}

/**
 * Deletes all jumps, also a correct one, which is then added again: of two agents at the same time, the second one then
 * fails as a whole. If each kept a jump, none might be left. Numbers of rules change: they are used only without a text.
 */
function deleteJumps({ jumps }: IptablesObservation): readonly string[] {
  const last = jumps.toReversed().flatMap(({ number }) => number ?? []);
  const texts = jumps.flatMap(({ spec, number }) => (number === undefined ? [spec] : []));
  return [...last, ...texts].map((which) => `-D POSTROUTING ${which}`);
}

/**
 * Deletes the jumps and both chains, declared first because the second one may not be there. A chain that a foreign rule leads
 * to is only emptied. If the numbers of jumps have changed, the deletion of the chain, or the insertion at the end, fails
 * the whole transaction.
 */
function removeChains(observed: IptablesObservation, chain: string): readonly string[] {
  const { jumps, postrouting, callers } = observed;
  const chains = [chain, secondChain(chain)];
  const byNumber = jumps.some(({ number }) => number !== undefined);
  const end = postrouting - jumps.length + 1;
  return [
    ...declarations(...chains),
    ...deleteJumps(observed),
    ...chains.filter((name) => !callers.has(name)).map((name) => `-X ${name}`),
    ...(byNumber ? [`-I POSTROUTING ${end} -j RETURN`, `-D POSTROUTING ${end}`] : []),
  ];
}

/** The plan that removes jumps and chains; undefined if there are none, or only empty chains that cannot be deleted. */
export function planRemoval(observed: IptablesObservation, chain: string): Draft | undefined {
  const { family, rules, leftover, callers } = observed;
  const chains = [...(rules ? [chain] : []), ...(leftover ? [secondChain(chain)] : [])];
  const comparison = compare(observed, [], undefined);
  if (comparison.current.length === 0 && chains.every((name) => callers.has(name))) return undefined;
  return {
    family,
    found: ['chain left over'],
    ...comparison,
    script: transaction(observed, removeChains(observed, chain)),
  };
}

/**
 * The chains that stay, empty, although no rule of the agent is in them, in words.
 *
 * @param policy undefined after a removal
 */
export function describeUndeletable(
  { callers }: IptablesObservation,
  options: RuleOptions,
  policy?: Policy,
): readonly string[] {
  const { chain } = options;
  const isNeeded = (name: string) =>
    policy !== undefined && (name === chain || needsSecond(chain, renderChain(policy, options)));
  return [...callers]
    .filter(([name]) => !isNeeded(name))
    .map(
      ([name, rule]) =>
        `chain ${name} stays, empty, because a foreign rule leads to it: ${rule}; let whoever wrote it remove it, and the next sync or cleanup deletes the chain`,
    );
}

type Comparison = Pick<Plan, 'added' | 'removed' | 'kept' | 'current' | 'wanted'>;

/** What changes, and jumps and rules as `iptables -S` prints them, before and after; a rule that stays has the same text in both. */
function compare(
  { rules = [], leftover = [], jumps }: IptablesObservation,
  wanted: readonly ChainRule[],
  jump: string | undefined,
): Comparison {
  const found = [...rules, ...leftover];
  const keys = new Set(found.map(keyOf));
  const specs = new Map(wanted.map((rule) => [keyOf(rule), rule.spec]));
  const added = wanted.filter((rule) => !keys.has(keyOf(rule)));
  const isRight = (spec: string) => jump !== undefined && sameRule(spec, jump);
  return {
    added: added.map(({ spec, entry }) => ({ text: spec, entry })),
    removed: found.filter((rule) => !specs.has(keyOf(rule))).map(({ spec }) => unplanned(spec)),
    kept: wanted.length - added.length,
    current: [
      ...jumps.map(({ spec }) => `-A POSTROUTING ${isRight(spec) ? jump : spec}`),
      ...found.map((rule) => `-A ${rule.chain} ${specs.get(keyOf(rule)) ?? rule.spec}`),
    ],
    wanted: [
      ...(jump === undefined ? [] : [unplanned(`-A POSTROUTING ${jump}`)]),
      ...wanted.map(({ chain, spec, entry }) => ({ text: `-A ${chain} ${spec}`, entry })),
    ],
  };
}

/** iptables-nft-restore reads the rules of a chain that it deletes: one with too many is emptied before. */
function transaction({ unread = [] }: Pick<IptablesObservation, 'unread'>, lines: readonly string[]): string {
  const emptied = declarations(...unread.filter((name) => lines.includes(`-X ${name}`)));
  return [...(emptied.length > 0 ? ['*nat', ...emptied, 'COMMIT'] : []), '*nat', ...lines, 'COMMIT', ''].join(
    '\n',
  );
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

function ruleDifferences(
  { rules }: IptablesObservation,
  { added, removed }: Comparison,
  rewrite: boolean,
): readonly DifferenceKind[] {
  if (rules === undefined) return ['no readable chain'];
  if (!rewrite) return [];
  return added.length + removed.length > 0 ? ['rules differ'] : ['rule order differs'];
}

function jumpDifferences(jumps: IptablesObservation['jumps'], jump: string): readonly DifferenceKind[] {
  const good = jumps.filter(({ spec }) => sameRule(spec, jump)).length;
  return [
    ...(jumps.length === 0 ? (['jump missing'] as const) : []),
    ...(good > 1 ? (['jump duplicated'] as const) : []),
    ...(good < jumps.length ? (['jump outdated'] as const) : []),
  ];
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
  return `${note}${transaction({}, [...new Set(lines.filter(isDeclaration)), ...rules])}`;
}
