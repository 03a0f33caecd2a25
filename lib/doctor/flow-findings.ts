import type { Holder } from '../agent/holder.ts';
import type { Prefix } from '../cidr/prefix.ts';
import type { Host } from '../dataplane/host.ts';
import { whyNoNetlink } from '../dataplane/netlink.ts';
import { FlowsAgainst } from '../flows/against.ts';
import { flowJudge } from '../flows/judge.ts';
import { MOST_FLOWS, readFlows } from '../flows/read.ts';
import { type Suspects, suspectDetails, suspectText } from '../foreign/suspects.ts';
import { Conntrack } from '../netlink/conntrack.ts';
import { NetlinkError } from '../netlink/error.ts';
import { countsText, type FlowCount, sumOf } from '../policy/flow-counts.ts';
import type { Policy } from '../policy/policy.ts';
import type { AgentState } from '../status/status-json.ts';
import type { Finding } from './finding.ts';

/**
 * The findings about flows against the policy. The agent's last reading says how many of them began before its last change: that
 * many keep what they began with, and are no finding.
 *
 * @param accepted ranges of pods that do not count
 */
export async function flowFindings(
  { netlink }: Pick<Host, 'netlink'>,
  policies: readonly Policy[],
  accepted: readonly Prefix[],
  suspects: Suspects,
  holder: Holder,
): Promise<{ readonly findings: readonly Finding[]; readonly read: string }> {
  let found: FlowsAgainst | undefined;
  let why = `conntrack holds more than ${MOST_FLOWS} connections`;
  try {
    if (netlink === undefined) why = whyNoNetlink(netlink);
    else found = await readAgainst(policies, accepted);
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    why = error.message;
  }
  if (found === undefined) return { findings: [notRead(why)], read: 'connections: not read' };
  const before = beforeOf(holder);
  const counts = found.counts();
  const isOld = before !== undefined && counts.every((one) => one.flows <= flowsOf(before, one));
  const read =
    counts.length === 0 ? 'connections: none against the config' : `${countsText(counts)} against the config`;
  if (isOld)
    return {
      findings: [],
      read: `${read}${counts.length === 0 ? '' : ", begun before the agent's last change"}`,
    };
  const message =
    before === undefined
      ? `${countsText(counts)} against the config: they began before the agent's last change, or another program decides about them`
      : `${countsText(counts)} against the config, of which ${sumOf(before)} began before the agent's last change: another program decides about the others`;
  const finding = {
    kind: 'flows-against-policy',
    message,
    evidence: [
      ...found.examples(),
      ...suspects.suspects.flatMap((one) => [suspectText(one), ...suspectDetails(one)]),
    ],
    remedy:
      'find out which of these programs does it (the first one is the likeliest), and change its configuration; if this is intended, as with an egress gateway, accept the ranges of these pods (--accept-masqueraded); see docs/runbook.md#ipmasqagentflowsagainstpolicy',
  } as const;
  return { findings: counts.length === 0 ? [] : [finding], read };
}

async function readAgainst(
  policies: readonly Policy[],
  accepted: readonly Prefix[],
): Promise<FlowsAgainst | undefined> {
  using conntrack = new Conntrack();
  const judge = await flowJudge(policies, accepted);
  const against = new FlowsAgainst();
  const isRead = await readFlows(conntrack, undefined, (flow) => {
    const treatment = judge(flow);
    if (treatment !== undefined) against.add(flow, treatment, 'before');
  });
  return isRead ? against : undefined;
}

/** The flows that the agent says began before its last change; undefined if it does not say. Its answer is input from outside. */
function beforeOf(holder: Holder): readonly FlowCount[] | undefined {
  const { state } = (holder.kind === 'agent' ? holder.introduction : undefined) ?? {};
  const counts = (state as Partial<AgentState> | undefined)?.flows?.counts;
  if (!Array.isArray(counts)) return undefined;
  return counts.filter(({ since, flows }) => since === 'before' && Number.isFinite(flows));
}

function flowsOf(counts: readonly FlowCount[], { family, verdict }: FlowCount): number {
  return sumOf(counts.filter((one) => one.family === family && one.verdict === verdict));
}

function notRead(why: string): Finding {
  const remedy = 'look at the connections of pods by hand: conntrack -L';
  return {
    kind: 'not-read',
    message: 'connections against the config may be hidden',
    evidence: [why],
    remedy,
  };
}
