import { formatOrigin } from '../../../lib/config/origin.ts';
import { groupForeignRules } from '../../../lib/neighbours/group.ts';
import { describeAuthor, foreignEvidence } from '../../../lib/neighbours/watch.ts';
import type { Explanation } from '../../../lib/policy/decision.ts';
import type { Entry, Verdict } from '../../../lib/policy/policy.ts';
import { printable } from '../../../lib/text/escape.ts';
import type { Answer, LiveAnswer } from './live.ts';

const VERDICT: Readonly<Record<Verdict, string>> = { return: 'not masqueraded', masquerade: 'masqueraded' };

/** The answer for people: a sentence, then what it rests on. */
export function answerText({ explanation, isKept, live }: Answer): string {
  const { text, verdict, overridden } = explanation;
  const said = isKept
    ? [
        `${text} is ${VERDICT[verdict]}: ${because(explanation)}`,
        ...overridden.map((entry) => `  overrides ${entryText(entry)}`),
      ]
    : [`${text} is left as it is: IPv6 is not enabled (--enable-ipv6), so the agent keeps no rules for it`];
  const seen = live === undefined ? [] : liveLines(live, isKept ? verdict : 'return');
  // Rules of others may hold any character.
  return [...said, ...seen].map((line) => `${printable(line)}\n`).join('');
}

function because({ address, decidedBy, flag }: Explanation): string {
  if (decidedBy !== undefined) return `${decidedBy.prefix.text} of ${formatOrigin(decidedBy.origin)} decides`;
  if (flag === undefined) return 'no entry holds it';
  const key = address.family === 'IPv4' ? 'masqLinkLocal' : 'masqLinkLocalIPv6';
  return `${key} of ${formatOrigin(flag.origin)} is true, and no entry holds it`;
}

function entryText({ prefix, verdict, origin }: Entry): string {
  return `${prefix.text} of ${formatOrigin(origin)}, ${VERDICT[verdict]}`;
}

function liveLines(live: LiveAnswer, wanted: Verdict): readonly string[] {
  return [
    ...(live.isLocal ? ['  it is an address of this node itself: such traffic never meets our rules'] : []),
    `  kernel ${live.agrees ? 'agrees' : 'DISAGREES'}: ${kernelText(live)}`,
    ...foreignLines(live, wanted).map((line) => `  ${line}`),
    ...live.unread.map((what) => `  not looked at: ${what}`),
  ];
}

function kernelText({ kernel: { state, verdict, rule } }: LiveAnswer): string {
  switch (state) {
    case 'no chain':
      return 'there is no chain of ours; is the agent running? See ip-masq-agent diff';
    case 'no jump':
      return 'nothing leads into our chain; is the agent running? See ip-masq-agent diff';
    case 'changed':
      return `somebody has changed rules of ours${rule === undefined ? '' : `: ${rule}`}; see ip-masq-agent diff`;
    case 'applied':
      return rule === undefined ? `no rule of ours holds it: ${VERDICT[verdict]}` : rule;
  }
}

function foreignLines({ foreign }: LiveAnswer, wanted: Verdict): readonly string[] {
  const { masquerading, endedBy } = foreign;
  const before =
    endedBy === undefined
      ? []
      : [
          `a rule of somebody else in ${endedBy.where} ends it before our chain is met:`,
          ...endedBy.path.map((text) => `  ${text}`),
        ];
  // What is masqueraded anyway, others may masquerade too.
  if (wanted === 'masquerade') return before;
  const others = groupForeignRules(masquerading).flatMap((group) => [
    `but ${describeAuthor(group)} may masquerade it:`,
    ...foreignEvidence(group).map((text) => `  ${text}`),
    `  ${group.remedy}`,
  ]);
  return [...before, ...others];
}
