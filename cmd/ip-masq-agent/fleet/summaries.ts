import type { Examination } from '../../../lib/doctor/examine.ts';
import type { PortUse } from '../../../lib/flows/ports-in-use.ts';
import { type AgentState, stateLines } from '../../../lib/status/status-json.ts';
import { type Advice, adviceText } from '../../../lib/text/advice.ts';
import type { originValue } from '../../../lib/text/origin.ts';
import type { explainedJson } from '../explain-json.ts';
import { type NodeReport, withoutDetails } from './groups.ts';

/** What an answer says, so that equal nodes say the same. */
export interface Summary extends Partial<Pick<NodeReport, 'unseen' | 'uses' | 'hash' | 'pending'>> {
  readonly lines: readonly string[];
  /** What is compared instead of the lines, if these name what is different on each node. */
  readonly key?: string;
}

/** The output of explain; see schemas/ip-masq-outputs.schema.json. */
interface Explanations {
  readonly addresses: readonly Explanation[];
  /** Absent without --live. */
  readonly unseen?: readonly string[];
}

type Explanation = ReturnType<typeof explainedJson>;
type Suspects = NonNullable<Explanation['live']>['suspects'];

/** An item of the output of check. */
interface Problem extends Advice {
  readonly severity: string;
  readonly at: {
    readonly configFile?: string;
    readonly line?: number | null;
    readonly column?: number | null;
  } | null;
}

/**
 * What the answers of the commands say. An answer comes from outside, and has the form that the schema describes or not.
 *
 * @throws {TypeError} if it has not
 */
export const SUMMARIES = { status, doctor, check, explain, ports } as const;

function status(answer: object): Summary {
  const state = answer as AgentState;
  const lines = stateLines(state);
  // How long a sync is late.
  const key = withoutDetails(lines.join('\n')).replace(/[\d.]+ s\b/g, 's');
  return { lines, key, hash: state.hash, pending: state.pending };
}

function doctor(answer: object): Summary {
  const { findings, suspects = [] } = answer as Pick<Examination, 'findings'> & { suspects?: Suspects };
  const programs = programsText(suspects);
  const others = programs === '' ? [] : [`NAT there too: ${programs}`];
  if (findings.length === 0) return { lines: ['nothing found', ...others] };
  const named = findings.map(({ kind, family }) => `${kind}${family === undefined ? '' : ` (${family})`}`);
  const lines = findings.map((one, at) => `${named[at]}: ${adviceText(one)}`);
  // Messages name addresses and interfaces of the node.
  return { lines: [...lines, ...others], key: [...named, ...others].join('\n') };
}

function check(answer: object): Summary {
  const { hash, problems } = answer as {
    readonly hash: string | null;
    readonly problems: readonly Problem[];
  };
  const lines = problems.map(({ at, severity, ...advice }) => {
    const place = at?.configFile == null ? '' : `${at.configFile}:${at.line ?? 1}:${at.column ?? 1}: `;
    return `${place}${severity}: ${adviceText(advice)}`;
  });
  return { lines: lines.length === 0 ? [`the config ${hash} has no problem`] : lines, hash };
}

function explain(answer: object): Summary {
  const { addresses, unseen: all = [] } = answer as Explanations;
  const told = addresses.map((one) => {
    const { address, translatedFrom: asked = address } = one;
    return { address, asked, text: verdictText(one), isUnseen: all.includes(asked) };
  });
  const lines = told.map(({ address, asked, text, isUnseen }) => {
    const service = isUnseen ? `${asked}, if it is not the address of a Service` : asked;
    return `${asked === address ? service : `connections to ${asked} go to ${address}`}: ${text}`;
  });
  // Each node sees connections of its own, to other endpoints, in another order.
  const key = told.map(({ asked, text, isUnseen }) => `${asked} ${isUnseen}: ${text}`).toSorted();
  return {
    lines,
    key: key.join('\n'),
    unseen: told.filter(({ isUnseen }) => isUnseen).map(({ asked }) => asked),
  };
}

function ports(answer: object): Summary {
  const { destinations } = answer as { readonly destinations: readonly PortUse[] };
  return {
    lines: [
      destinations.length === 0
        ? 'no connection with a port of the node'
        : 'connections with ports of the node: the list below has the busiest destinations of all nodes',
    ],
    uses: destinations.map(({ address, protocol, destination, inUse, ports: all }) => ({
      share: inUse / all,
      text: `${inUse} of ${all} ports of ${address} to ${protocol} ${destination}`,
    })),
  };
}

function verdictText(one: Explanation): string {
  const { verdict, live } = one;
  if (live === undefined) return saidText(one);
  const kernel = live.agrees ? '; the kernel agrees' : `; the kernel: ${nowText(live)}`;
  const programs = programsText(live.suspects);
  const others = programs === '' ? '' : `; NAT there too: ${programs}`;
  return `${saidText(one)}${live.agrees && verdict === null ? '' : kernel}${others}`;
}

/** The programs besides the agent that do NAT on the node. */
function programsText(suspects: Suspects): string {
  return [...new Set(suspects.map(({ program }) => program ?? 'an unknown program'))].join(', ');
}

function saidText({ address, verdict, from, decidedBy, live }: Explanation): string {
  if (live?.agrees === null) return 'the config is invalid';
  if (from === null) return 'the config is invalid; --live shows what happens now';
  if (verdict === null)
    return `not masqueraded by the agent: ${address.includes(':') ? 'IPv6' : 'IPv4'} is not enabled`;
  return `${words(verdict)}${decidedBy === null ? '' : `, by ${decidedBy.cidr} of ${placeText(decidedBy.origin)}`}`;
}

/** Why the kernel does what it does, by the state of the rules, if none decides. */
const STATES: ReadonlyMap<string, string> = new Map([
  ['applied', "none of the agent's rules matches it"],
  ['no chain', "the agent's chain does not exist"],
  ['no jump', "nothing leads packets to the agent's chain"],
  ['changed', "the agent's rules were changed"],
]);

function nowText({ verdict, state, rule }: NonNullable<Explanation['live']>): string {
  const isByRule = state === 'applied' && rule !== null;
  return `${words(verdict)}${isByRule ? '' : ` (${STATES.get(state) ?? state})`}`;
}

function words(verdict: string | null): string {
  return verdict?.replace('_', ' ') ?? 'no verdict';
}

function placeText(origin: ReturnType<typeof originValue>): string {
  return 'file' in origin ? `${origin.file}:${origin.line}:${origin.column}` : origin.builtIn;
}
