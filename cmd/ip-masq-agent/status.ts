import { agentText, findHolder, type Holder } from '../../lib/agent/holder.ts';
import { type AgentState, statusLines } from '../../lib/status/status-json.ts';
import { SystemError } from '../../lib/text/error.ts';
import type { Args } from './command.ts';
import type { OUTPUT_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import { printResult } from './print.ts';

/**
 * Prints the state of the agent that runs on this node, as it tells it over the socket of the lock.
 *
 * @throws {SystemError} if none tells it
 */
export async function status({ flags }: Args<typeof OUTPUT_FLAGS>): Promise<number> {
  const state = stateOf(await findHolder());
  const lines = linesOf(state);
  const inSync = state.inSync ? EXIT.ok : EXIT.different;
  const code = state.invalid === null ? inSync : EXIT.config;
  return printResult(flags.output, code, state, () => `${lines.join('\n')}\n`);
}

function stateOf(holder: Holder): AgentState {
  if (holder.kind === 'none') throw new SystemError('no agent runs in this network namespace; see its log');
  if (holder.kind === 'unproven')
    throw new SystemError(
      `no agent answers: ${holder.reason}; run the command as root in its pod, or see who has the lock: ss -xlp src @ip-masq-agent`,
    );
  const { state } = holder.introduction ?? {};
  if (state === undefined)
    throw new SystemError(
      `${agentText(holder)} does not tell its state: it hangs, is stopped or cleans up, or this command does not run as root in its pod; see its log`,
    );
  return state as AgentState;
}

/** @throws {SystemError} if the state of an agent of another version has another form */
function linesOf(state: AgentState): readonly string[] {
  try {
    return statusLines(state);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new SystemError('the agent is of another version; run the command in its pod');
  }
}
