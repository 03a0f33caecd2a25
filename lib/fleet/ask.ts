import { type Kubectl, type Run, runKubectl } from './kubectl.ts';
import type { FleetNode } from './nodes.ts';

/** What a node has answered, or why it has not. */
export type Reply =
  | {
      readonly kind: 'answered';
      /** The exit code of the agent's command. */
      readonly code: number;
      readonly answer: object;
      /** What it has told beside the answer: why another config than the files is in use, and errors in the files. */
      readonly notes: readonly string[];
    }
  | {
      readonly kind: Failure;
      readonly lines: readonly string[];
    };

/** Why there is no answer. */
type Failure = 'no-pod' | 'down' | 'silent' | 'too-old' | 'failed' | 'not-asked';

const LONGEST_ANSWER = 2 ** 20;
/** How many errors of an invalid config are kept. */
const MOST_ERRORS = 3;
/** Levels of nesting of an answer: each takes a part of the stack when it is written. */
const DEEPEST_ANSWER = 32;

/** Runs a command of the agent on the node, whose output is to be a JSON object. An input is its standard input. */
export async function ask(
  kubectl: Kubectl,
  { pod, without }: FleetNode,
  command: readonly string[],
  input?: string,
): Promise<Reply> {
  if (pod === undefined) return failed('no-pod', without);
  const { name, container } = pod;
  const { lines: down = [] } = pod.down ?? {};
  if (container === undefined) return failed('down', ...down);
  if (kubectl.signal.aborted) return failed('not-asked', INTERRUPTED);
  const inPod = [`pod/${name}`, `--container=${container}`, ...(input === undefined ? [] : ['--stdin'])];
  const args = ['exec', ...inPod, '--', 'ip-masq-agent', ...command];
  const reply = replyOf(await runKubectl(kubectl, args, LONGEST_ANSWER, input), kubectl.timeoutMs);
  return reply.kind === 'failed' && down.length > 0 ? failed('down', ...down) : reply;
}

const INTERRUPTED = 'not asked, or no answer yet: interrupted';

function failed(kind: Failure, ...lines: readonly string[]): Reply {
  return { kind, lines };
}

function replyOf({ killed, code, stdout, told }: Run, timeoutMs: number): Reply {
  if (killed === 'interrupt') return failed('not-asked', INTERRUPTED);
  if (killed === 'time') return failed('silent', `no answer within ${timeoutMs / 1000} s`);
  if (killed === 'size') return failed('failed', 'the answer is longer than 1 MiB');
  // The last line, with which kubectl passes on the exit code of the command in the pod; all before it is the command's.
  const [, exit] = /^command terminated with exit code (\d+)$/.exec(told.at(-1) ?? '') ?? [];
  if (code === 2 && /: unknown (?:command|flag) /.test(told.join()))
    return failed('too-old', 'the agent is too old for this command');
  const errors = told.filter((line) => line.includes(': error: ')).slice(0, MOST_ERRORS);
  const answer = objectIn(stdout);
  const others = told.filter((line) => line.includes(': the agent uses another config than the files: '));
  if (answer !== undefined && code !== undefined)
    return { kind: 'answered', code, answer, notes: [...others, ...errors] };
  if (code === 0) return failed('failed', 'the answer is not a JSON object');
  if (exit === undefined) return failed('failed', told.at(-1) ?? `kubectl ended with ${code ?? 'a signal'}`);
  const why = errors.length > 0 ? errors : told.slice(-2, -1);
  return failed('failed', `exit code ${exit} without an answer`, ...why);
}

/** The JSON object in a text; undefined if it is none, or nested too deeply. */
function objectIn(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject && isAtMost(DEEPEST_ANSWER, value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isAtMost(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((one) => isAtMost(levels - 1, one));
}

/** Does the work for each item, at most so many at a time. */
export async function inParallel<Item>(
  items: readonly Item[],
  most: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items.values();
  const worker = async () => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
}
