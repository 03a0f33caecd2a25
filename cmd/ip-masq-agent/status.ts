import { findHolder, type Introduction, inWords } from '../../lib/agent/holder.ts';
import { type AgentState, detailLines, stateLines } from '../../lib/status/state.ts';
import { SystemError } from '../../lib/text/error.ts';
import type { Args } from './command.ts';
import type { OUTPUT_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import { print, printJson } from './print.ts';

/**
 * Prints the state of the agent that runs on this node, as it tells it over the socket of the lock.
 *
 * @throws {SystemError} if none tells it
 */
export async function status({ flags }: Args<typeof OUTPUT_FLAGS>): Promise<number> {
  const state = await askState();
  const code = state.inPlace ? EXIT.ok : EXIT.different;
  const worst = state.invalid === null ? code : EXIT.config;
  if (flags.output === 'json') printJson(worst, state);
  else print(`${[...stateLines(state), ...detailLines(state)].join('\n')}\n`);
  return worst;
}

async function askState(): Promise<AgentState> {
  const holder = await findHolder();
  if (holder.kind === 'none') throw new SystemError('no agent runs in this network namespace; see its log');
  if (holder.kind === 'unproven')
    throw new SystemError(
      `no agent answers: ${holder.reason}; run the command as root, in the pod of the agent`,
    );
  const { introduction } = holder;
  if (introduction === undefined)
    throw new SystemError(`${inWords(holder)} does not answer; run the command as root, or try again`);
  if (!isOfThisVersion(introduction))
    throw new SystemError(
      `${inWords(holder)} is of another version, and tells nothing that this one can read; run the command in its pod`,
    );
  return introduction.state;
}

/** Whether what the agent says can be read, which may be of another version. */
function isOfThisVersion(
  introduction: Introduction,
): introduction is Introduction & { readonly state: AgentState } {
  try {
    const state = introduction.state as AgentState;
    return [stateLines(state), detailLines(state)].length > 0;
  } catch (error) {
    if (error instanceof TypeError) return false;
    throw error;
  }
}
