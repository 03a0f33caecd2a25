import { type Address, FAMILY_NAMES, formatAddress } from '../../../lib/cidr/address.ts';
import { isIn, rangeOf } from '../../../lib/cidr/ranges.ts';
import { UNROUTED_RANGES } from '../../../lib/cidr/reserved.ts';
import {
  agreesWholly,
  contenders,
  type Elsewhere,
  type Explained,
  type LiveVerdict,
} from '../../../lib/explain/explain.ts';
import { suspectDetails, suspectText } from '../../../lib/foreign/suspects.ts';
import { type Decision, noEntryText } from '../../../lib/policy/decision.ts';
import {
  type Entry,
  nodeAddressText,
  outcomeText,
  VERDICT_TEXT,
  type Verdict,
} from '../../../lib/policy/policy.ts';
import type { Colour, Paint } from '../../../lib/text/colour.ts';
import { printable } from '../../../lib/text/escape.ts';
import { withOrigin } from '../../../lib/text/origin.ts';
import { truncated } from '../../../lib/text/words.ts';

const COLOUR: Readonly<Record<Verdict, Colour>> = { not_masqueraded: 'green', masqueraded: 'yellow' };

export function explainedText(
  { address, range, translatedFrom, decision, isKept, live }: Explained,
  paint: Paint,
): string {
  const { family } = address;
  const text = range ?? formatAddress(address);
  const lines: string[] = [];
  if (translatedFrom !== undefined)
    lines.push(
      `connections to ${formatAddress(translatedFrom)} go to ${text}, as conntrack shows; that address decides:`,
    );
  const now = live ? 'this is what happens now' : 'on a node, --live shows what happens now';
  if (decision === undefined) lines.push(`${text}: the config is invalid; ${now}`);
  else if (isKept) lines.push(...decisionLines(text, decision, live, paint));
  else
    lines.push(
      `${text} is not masqueraded by the agent: ${family} is not enabled (--enable-${FAMILY_NAMES[family]}), so the agent keeps no rules for it`,
    );
  const wanted = isKept ? (decision ?? live?.kernel)?.verdict : undefined;
  if (live !== undefined) lines.push(...liveLines(live, wanted ?? 'not_masqueraded', paint));
  return lines.map((line) => `${line}\n`).join('');
}

/** What to do about addresses of Services; empty if conntrack shows connections to all of them. */
export function unseenText(addresses: readonly Address[]): string {
  if (addresses.length === 0) return '';
  const texts = addresses.map(formatAddress).join(', ');
  return `conntrack shows no connection to ${texts}. For a Service, ask for its endpoint instead, which decides: kubectl get endpointslices -A\n`;
}

/** What a config cannot say of addresses that Services can have: a packet to one goes to its endpoint before it meets the rules. */
export function serviceText(answers: readonly Explained[]): string {
  const isPrivate = ({ family, value }: Address) =>
    UNROUTED_RANGES.some(({ prefix }) => prefix.family === family && isIn(value, rangeOf(prefix)));
  const found = answers
    .filter(({ address, range, isKept }) => isKept && range === undefined && isPrivate(address))
    .map(({ address }) => formatAddress(address));
  if (found.length === 0) return '';
  return `if ${found.join(' or ')} is the address of a Service, its endpoint decides: ask for the endpoint (kubectl get endpointslices -A), or use --live on a node\n`;
}

function decisionLines(
  to: string,
  decision: Decision,
  live: LiveVerdict | undefined,
  paint: Paint,
): readonly string[] {
  const { verdict, as, overridden, source } = decision;
  const from = source.address === undefined ? '' : ` from ${formatAddress(source.address)}`;
  const text = `${to}${from}`;
  const painted = paint(COLOUR[verdict], outcomeText(verdict, as && nodeAddressText(as)));
  return [
    live?.isLocal
      ? `${text} is an address of this node: such traffic never meets the agent's rules, which say ${painted}: ${because(decision)}`
      : `${text}${live === undefined ? ' is ' : ': the config says '}${painted}: ${because(decision)}`,
    ...addressLines(decision),
    ...sourceLines(decision),
    ...overridden.map((entry) => `  overrides ${entryText(entry)}`),
  ];
}

function because({ decidedBy, flag, source }: Decision): string {
  if (source.isLeftAlone) {
    const where = source.address === undefined ? 'anywhere' : 'there';
    return `packets from ${where} are not masqueraded, whatever their destination`;
  }
  if (decidedBy === undefined) return noEntryText(flag);
  return `${withOrigin(decidedBy.prefix.text, decidedBy.origin)} decides`;
}

/** Why the packets leave with their address. */
function addressLines({ as }: Decision): readonly string[] {
  if (as === undefined) return [];
  const range = withOrigin(as.range.text, as.origin);
  if (as.candidates === undefined)
    return [`  masqueradeAddresses lists ${range}; on a node, --live shows the address`];
  const [first] = as.candidates;
  if (first === undefined) return [`  the kernel chooses the address, because the node has none in ${range}`];
  const which = as.candidates.length === 1 ? "the node's only address" : "the best of the node's addresses";
  return [`  ${formatAddress(first)} is ${which} in ${range}`];
}

const MAX_RANGES = 3;

/** What the ranges that packets come from have to do with it. */
function sourceLines({
  source: { address, listed, match, isLeftAlone },
  verdict,
}: Decision): readonly string[] {
  const placed = ({ prefix, origin }: Entry) => withOrigin(prefix.text, origin);
  if (match !== undefined) {
    const key = match.verdict === 'masqueraded' ? 'masqueradeFromCIDRs' : 'nonMasqueradeFromCIDRs';
    return [`  ${key} lists ${placed(match)}`];
  }
  if (verdict === 'not_masqueraded' && address === undefined && !isLeftAlone) return [];
  const ranges = (said: Verdict) => {
    const some = listed.filter((one) => one.verdict === said);
    return truncated(some, MAX_RANGES, placed, (more) => `${more} more`).join(', ');
  };
  const [from, except] = [ranges('masqueraded'), ranges('not_masqueraded')];
  if (from === '')
    return except === '' || address !== undefined ? [] : [`  packets from ${except} are not masqueraded`];
  const nor = except && `, nor are those from ${except}`;
  return [`  only for packets from ${from}; packets from elsewhere are not masqueraded${nor}`];
}

function entryText({ prefix, verdict, origin, as }: Entry): string {
  return `${withOrigin(prefix.text, origin)}, ${outcomeText(verdict, as && nodeAddressText(as))}`;
}

/** Every text of the kernel is made printable: names and comments of other programs may hold any character. */
function liveLines(live: LiveVerdict, wanted: Verdict, paint: Paint): readonly string[] {
  const agrees = agreesWholly(live) ? `kernel ${paint('green', 'agrees')}` : "the agent's own rules agree";
  const contended = live.isLocal ? [] : contenderLines(live, wanted);
  const ifOurs = contended.length === 0 ? '' : ", if the agent's rules decide";
  const others = [
    ...live.elsewhere.map((one) => elsewhereText(one)),
    ...contended,
    ...live.flows.map(flowLine),
    ...(live.egress === undefined || live.isLocal ? [] : [`${live.egress}${ifOurs}`]),
    ...live.suspects.flatMap((one) => [suspectText(one), ...suspectDetails(one).map((line) => `  ${line}`)]),
    ...live.unread.map((what) => `not read: ${what}`),
  ];
  const said =
    live.agrees === undefined ? nowText(live) : live.agrees ? agrees : `kernel ${paint('red', 'DISAGREES')}`;
  return [`  ${said}: ${printable(kernelText(live))}`, ...others.map((line) => `  ${printable(line)}`)];
}

/** Says what is not known: nobody reads which packets the rules of other programs concern. */
function contenderLines(live: LiveVerdict, wanted: Verdict): readonly string[] {
  const names = [
    ...new Set(contenders(live, wanted).map(({ program }) => program?.name ?? 'an unknown program')),
  ];
  if (names.length === 0 || live.kernel.verdict !== wanted) return [];
  const who = `${names.length === 1 ? 'the chain' : 'the chains'} of ${names.join(', ')}`;
  return wanted === 'masqueraded'
    ? [`the agent's rules masquerade it; ${who} ${names.length === 1 ? 'comes' : 'come'} first`]
    : [`the agent's rules leave it alone; ${who} ${names.length === 1 ? 'does' : 'do'} NAT here too`];
}

function flowLine({ text, as, isAgainst }: LiveVerdict['flows'][number]): string {
  const left = `conntrack shows ${text}, which left with ${as === undefined ? 'its own address' : formatAddress(as)}`;
  return isAgainst ? `${left}: it began before the last change, or another program decides about it` : left;
}

/** What the agent's rules do, whatever the config says. */
function nowText({ isLocal, kernel: { state, verdict, as } }: LiveVerdict): string {
  if (isLocal) return "an address of this node, which never meets the agent's rules";
  return state === 'changed' ? 'unknown' : outcomeText(verdict, as);
}

function kernelText({ kernel: { state, verdict, kernelRule }, agrees }: LiveVerdict): string {
  switch (state) {
    case 'no chain':
      return agrees
        ? 'it has no rules of the agent for this family'
        : "the agent's chain does not exist; is the agent running? See ip-masq-agent diff";
    case 'no jump':
      return "nothing leads packets to the agent's chain; is the agent running? See ip-masq-agent diff";
    case 'changed':
      return `the agent's rules were changed${kernelRule === undefined ? '' : `: ${kernelRule}`}; see ip-masq-agent diff`;
    case 'applied':
      return kernelRule ?? `none of the agent's rules matches it: ${VERDICT_TEXT[verdict]}`;
  }
}

function elsewhereText({ where, state, verdict, kernelRule, differs }: Elsewhere): string {
  const does =
    state === 'changed'
      ? 'may masquerade it'
      : `${verdict === 'masqueraded' ? 'masquerade' : 'do not masquerade'} it`;
  const text = `the agent's rules are also in ${where}, and ${does}${kernelRule === undefined ? '' : `: ${kernelRule}`}`;
  return differs ? `kernel DISAGREES: ${text}; see ip-masq-agent doctor` : text;
}
