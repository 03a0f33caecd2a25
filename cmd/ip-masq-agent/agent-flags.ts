import { type Agent, findHolder, otherConfigReasons } from '../../lib/agent/holder.ts';
import type { Dataplane } from '../../lib/dataplane/dataplane.ts';
import { UsageError } from './exit.ts';
import { type FlagTexts, flagValues } from './flag-table.ts';
import { DATAPLANE_FLAGS, FLAGS, type FlagName, type FlagValues, POLICY_FLAGS } from './flags.ts';

/** The flags that a command beside a running agent takes from it. */
const SHARED_FLAGS: readonly FlagName[] = [...POLICY_FLAGS, ...DATAPLANE_FLAGS];

/**
 * The flags of policy and dataplane of this agent, for commands that run beside it.
 *
 * @param dataplane the one in use, which --backend=auto has found; undefined before that
 */
export function sharedFlags(texts: FlagTexts, dataplane: Dataplane | undefined): readonly string[] {
  const all = new Map(texts);
  if (dataplane !== undefined) all.set('backend', [dataplane.iptables ? 'iptables' : 'nftables']);
  return SHARED_FLAGS.map((name) => `--${name}=${all.get(name)?.join(',') ?? FLAGS[name].default}`);
}

/**
 * Completes a command line with the flags of the agent that runs on this node. A flag of the command line wins. What the
 * agent says is checked as a command line is.
 *
 * @param uses the flags that the command uses
 * @returns the texts of all flags, and what to tell the user of those of the agent
 */
export async function withAgentFlags(
  given: FlagTexts,
  uses: readonly FlagName[],
): Promise<{ readonly flagTexts: FlagTexts; readonly notes: readonly string[] }> {
  const holder = await findHolder();
  if (holder.kind === 'none') return { flagTexts: given, notes: [] };
  const wanted = uses.filter((name) => SHARED_FLAGS.includes(name) && !given.has(name));
  if (holder.kind === 'unproven' || holder.introduction === undefined) {
    const reason = holder.kind === 'unproven' ? holder.reason : 'it does not answer';
    const note = `the flags of the agent on this node are unknown: ${reason}; using the default of each flag that you do not set`;
    return { flagTexts: given, notes: [note] };
  }
  const { version, flags } = holder.introduction;
  const { told, notes } = validFlags(flags, wanted);
  const flagTexts = new Map([...given, ...told]);
  // The dataplane is always told, and shown in another place.
  const changed = [...told].filter(([name, [text]]) => text !== FLAGS[name].default && name !== 'backend');
  const shown = changed.map(([name, text]) => `--${name}=${text}`).join(' ');
  const reasons = otherConfigReasons(holder).join('; ');
  if (shown !== '') notes.push(`used the flags of the running agent, ${version}: ${shown}`);
  if (reasons !== '') notes.push(`the agent uses another config than the files: ${reasons}`);
  return { flagTexts, notes };
}

/** The flags of the agent that holds the lock, as far as it tells them; undefined if it does not answer. */
export function flagsOf({ introduction }: Agent): FlagValues | undefined {
  return introduction && flagValues(FLAGS, validFlags(introduction.flags, SHARED_FLAGS).told);
}

/** The flags among `flags` that are wanted and valid in this version, and why others are not. */
function validFlags(flags: readonly string[], wanted: readonly FlagName[]) {
  const told = new Map<FlagName, readonly [string]>();
  const notes: string[] = [];
  for (const flag of flags) {
    const [, given = '', text = ''] = /^--([^=]+)=(.*)$/s.exec(flag) ?? [];
    const name = wanted.find((one) => one === given);
    if (name === undefined) continue;
    try {
      FLAGS[name].kind.parse(text);
      told.set(name, [text]);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      notes.push(`not taken from the running agent: ${flag}: it ${error.message}`);
    }
  }
  return { told, notes };
}
