import { formatAddress } from '../../lib/cidr/address.ts';
import { agreesWholly, type Explained, type LiveVerdict } from '../../lib/explain/explain.ts';
import type { Suspect } from '../../lib/foreign/suspects.ts';
import type { SourceDecision } from '../../lib/policy/decision.ts';
import type { AddressRequest, Entry, Verdict } from '../../lib/policy/policy.ts';
import { originValue } from '../../lib/text/origin.ts';

/** The answer for programs; `fleet` reads it too. */
export function explainedJson({ address, range, translatedFrom, decision, isKept, live }: Explained) {
  // Without rules for the family, no entry decides; with an invalid config, none is known.
  const kept = isKept ? decision : undefined;
  const flag = kept?.flag;
  return {
    address: formatAddress(address),
    ...(range !== undefined && { range }),
    ...(translatedFrom && { translatedFrom: formatAddress(translatedFrom) }),
    verdict: kept?.verdict ?? null,
    ...(kept?.as !== undefined && { as: asJson(kept.as) }),
    from: decision === undefined ? null : fromJson(decision.source),
    decidedBy: kept?.decidedBy === undefined ? null : entryJson(kept.decidedBy),
    flag: flag === undefined ? null : { value: flag.value, origin: originValue(flag.origin) },
    overridden: (kept?.overridden ?? []).map(entryJson),
    ...(live !== undefined && { live: liveJson(live) }),
  };
}

function fromJson({ address, listed, isLeftAlone: isElsewhere }: SourceDecision) {
  const ranges = (said: Verdict) =>
    listed
      .filter(({ verdict }) => verdict === said)
      .map(({ prefix, origin }) => ({ cidr: prefix.text, origin: originValue(origin) }));
  return {
    address: address === undefined ? null : formatAddress(address),
    isElsewhere,
    listed: ranges('masqueraded'),
    exceptions: ranges('not_masqueraded'),
  };
}

function asJson({ range, origin, candidates: found }: AddressRequest) {
  const addresses = found?.map(formatAddress);
  return {
    address: addresses?.[0] ?? null,
    found: addresses ?? null,
    range: range.text,
    origin: originValue(origin),
  };
}

function entryJson({ prefix, verdict, origin }: Entry) {
  return { cidr: prefix.text, verdict, origin: originValue(origin) };
}

function liveJson(live: LiveVerdict) {
  const { isLocal, kernel, elsewhere, flows, suspects, unread, egress } = live;
  return {
    agrees: live.agrees === undefined ? null : agreesWholly(live),
    isLocal,
    state: kernel.state,
    verdict: kernel.verdict,
    ...(kernel.as !== undefined && { as: kernel.as }),
    rule: kernel.kernelRule ?? null,
    elsewhere: elsewhere.map(({ kernelRule, differs, ...one }) => ({
      ...one,
      rule: kernelRule ?? null,
      differs,
    })),
    flows: flows.map(({ text, as, isAgainst }) => ({
      flow: text,
      as: as === undefined ? null : formatAddress(as),
      isAgainst: isAgainst ?? null,
    })),
    suspects: suspects.map(suspectJson),
    unread,
    ...(egress !== undefined && { egress }),
  };
}

/** What else does NAT on the node, for programs. */
export function suspectJson({ family, position, program, place, rules, show }: Suspect) {
  const { name = null, setting = null } = program ?? {};
  return { family, position, program: name, place, rules, setting, show: show ?? null };
}
