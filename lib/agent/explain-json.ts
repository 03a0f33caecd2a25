import { placeValue } from '../config/report/json.ts';
import type { Entry } from '../policy/policy.ts';
import type { Answer, LiveAnswer } from './explain.ts';
import { foreignEvidence } from './foreign.ts';

/** The answer as plain values, for programs. */
export function answerJson({ explanation, isKept, live }: Answer): object {
  const { text, verdict, decidedBy, overridden } = explanation;
  return {
    address: text,
    // Nobody decides about what the agent keeps no rules for.
    verdict: isKept ? verdict : null,
    decidedBy: isKept && decidedBy !== undefined ? entryJson(decidedBy) : null,
    overridden: isKept ? overridden.map(entryJson) : [],
    ...(live !== undefined && { live: liveJson(live) }),
  };
}

function entryJson({ prefix, verdict, origin }: Entry): object {
  return { cidr: prefix.text, verdict, origin: placeValue(origin) };
}

function liveJson({ isLocal, kernel, agrees, foreign, unread }: LiveAnswer): object {
  return {
    agrees,
    isLocal,
    state: kernel.state,
    verdict: kernel.verdict,
    rule: kernel.rule ?? null,
    foreign: foreign.masquerading.map((rule) => ({
      author: rule.author,
      where: rule.where,
      evidence: foreignEvidence({ rules: [rule] }),
      remedy: rule.remedy,
    })),
    endedBy: foreign.endedBy ?? null,
    unread,
  };
}
