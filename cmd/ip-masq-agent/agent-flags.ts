import { type Agent, findHolder } from '../../lib/agent/holder.ts';
import type { Dataplane } from '../../lib/dataplane/dataplane.ts';
import { UsageError } from './exit.ts';
import { flagValues } from './flag-table.ts';
import { DATAPLANE_FLAGS, FLAGS, type FlagName, type FlagValues, POLICY_FLAGS } from './flags.ts';
import { complain } from './print.ts';

/** The texts that a command line gives for flags, by name. */
type Texts = ReadonlyMap<string, string>;

/** The flags that a command beside a running agent takes from it. */
const SHARED_FLAGS: readonly FlagName[] = [...POLICY_FLAGS, ...DATAPLANE_FLAGS];

/**
 * The flags of policy and dataplane of this agent, for commands that run beside it.
 *
 * @param dataplane the one in use, which --backend=auto has found; undefined before that
 */
export function sharedFlags(texts: Texts, dataplane: Dataplane | undefined): readonly string[] {
  const found = dataplane && new Map(texts).set('backend', dataplane.iptables ? 'iptables' : 'nftables');
  // The parser joins a repeated flag by NUL.
  return SHARED_FLAGS.map((name) => `--${name}=${textOf(name, found ?? texts).replaceAll('\0', ',')}`);
}

/**
 * Completes a command line with the flags of the agent that runs on this node, and says so on standard error. A flag of
 * the command line wins. What the agent says is checked as a command line is.
 *
 * @param uses the flags that the command uses
 */
export async function withAgentFlags(given: Texts, uses: readonly FlagName[]): Promise<Texts> {
  const holder = await findHolder();
  if (holder.kind === 'none') return given;
  const wanted = uses.filter((name) => SHARED_FLAGS.includes(name) && !given.has(name));
  const show = (names: readonly FlagName[], texts: Texts) =>
    names.map((name) => `--${name}=${textOf(name, texts)}`).join(' ');
  if (holder.kind === 'unproven' || holder.introduction === undefined) {
    const reason = holder.kind === 'unproven' ? holder.reason : 'it does not answer';
    complain(`the flags of the agent on this node are unknown: ${reason}; assuming ${show(wanted, given)}`);
    return given;
  }
  const { version, flags } = holder.introduction;
  const told = validFlags(flags, wanted);
  if (told.size === 0) return given;
  const texts = new Map([...given, ...told]);
  const changed = [...told.keys()].filter((name) => textOf(name, texts) !== FLAGS[name].default);
  complain(`flags of the running agent, ${version}: ${show(changed, texts) || 'the defaults'}`);
  return texts;
}

/** The flags of the agent that holds the lock, as far as it tells them; undefined if it does not answer. */
export function flagsOf({ introduction }: Agent): FlagValues | undefined {
  return introduction && flagValues(FLAGS, validFlags(introduction.flags, SHARED_FLAGS));
}

/** The flags among `flags` that are wanted and valid in this version. */
function validFlags(flags: readonly string[], wanted: readonly FlagName[]): ReadonlyMap<FlagName, string> {
  const told = new Map<FlagName, string>();
  for (const flag of flags) {
    const [, given = '', text = ''] = /^--([^=]+)=(.*)$/s.exec(flag) ?? [];
    const name = wanted.find((one) => one === given);
    if (name === undefined) continue;
    try {
      FLAGS[name].kind.parse(text);
      told.set(name, text);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      complain(`not taken from the running agent: ${flag}: it ${error.message}`);
    }
  }
  return told;
}

function textOf(name: FlagName, texts: Texts): string {
  return texts.get(name) ?? FLAGS[name].default;
}
