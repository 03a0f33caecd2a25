import { byteOrder, type ConfigFile, isConfigFileName } from '../config/config-file.ts';
import { mergeConfigFiles } from '../config/load.ts';
import { formatProblem } from '../config/problem.ts';
import { truncatedText } from '../text/words.ts';
import type { Claim, KubeObject } from './claims.ts';
import { decide, type ListedRange, type ListPlan, type Options } from './decide.ts';
import { formatLastUse, type LastUse, parseLastUse } from './last-use.ts';

/** The name of the program, of its field manager, its ConfigMap and the key in it. */
export const NAME = 'ip-masq-ranges';
const LAST_USE = `${NAME}/last-used`;
const ACCEPT = `${NAME}/accept`;

/** What the API server holds, and what could not be read of it. */
export interface Objects {
  readonly claims: readonly Claim[];
  /** The ConfigMap of the list. */
  readonly own: KubeObject | undefined;
  /** The other ConfigMaps that the agents mount. */
  readonly others: readonly KubeObject[];
  readonly failures: readonly string[];
}

/**
 * What to write, or why not.
 *
 * @param memory what this process knows of the last use of ranges
 * @param now milliseconds since the epoch
 */
export function planFor(
  { own, others, claims, failures }: Objects,
  memory: readonly LastUse[],
  now: number,
  options: Options,
): ListPlan {
  const unknown = { entries: [], use: [], rejected: [] };
  if (failures.length > 0)
    return { ...unknown, refusal: { reason: 'unreadable', message: failures.join('; ') } };
  const written = lastUseOf(own);
  // The ConfigMap that this process remembers may have been deleted since, and another owner may have made this one.
  const isOurs = memory.length > 0 && own?.metadata.managedFields?.some(({ manager }) => manager === NAME);
  if (own !== undefined && written === undefined && !isOurs) {
    const message = `the ConfigMap ${NAME} is not from this program: it has no readable annotation ${LAST_USE}; delete it, then this program writes it anew`;
    return { ...unknown, refusal: { reason: 'not-ours', message } };
  }
  const last = [...memory, ...(written ?? [])];
  const hasOtherFiles = others.some((one) => configFilesOf(one).length > 0);
  const accepted = own?.metadata.annotations?.[ACCEPT];
  const decision = decide({ claims, last, now, hasOtherFiles, accepted }, options);
  if (decision.refusal !== undefined) return decision;
  const { problems } = mergedWith(textOf(decision.entries, options), others, options);
  const errors = problems.filter(({ severity }) => severity === 'error');
  if (errors.length === 0) return decision;
  const message = `the list does not fit the other config files: ${truncatedText(errors, 3, formatProblem)}`;
  return { ...decision, refusal: { reason: 'conflict', message } };
}

/** What the ConfigMap tells of the last use of ranges; undefined if it does not. */
export function lastUseOf(own: KubeObject | undefined): readonly LastUse[] | undefined {
  return parseLastUse(own?.metadata.annotations?.[LAST_USE] ?? '');
}

/** The config file. */
function textOf(entries: readonly ListedRange[], { config }: Options): string {
  const lines = [
    `# Written by ${NAME}, which puts edits back.`,
    'nonMasqueradeCIDRs:',
    ...entries.map(({ prefix, comment }) => `  - ${prefix.text} # ${comment}`),
    ...(entries.length > config.cidrLimit ? [`cidrLimit: ${entries.length}`] : []),
  ];
  return `${lines.join('\n')}\n`;
}

/** What agents make of the config files if this one is among them; without it if the text is undefined. */
export function mergedWith(text: string | undefined, others: readonly KubeObject[], { config }: Options) {
  const own = text === undefined ? [] : [{ metadata: { name: NAME }, data: { [NAME]: text } }];
  const files = [...others, ...own].flatMap(configFilesOf).toSorted((a, b) => byteOrder(a.name, b.name));
  return mergeConfigFiles(files, config);
}

/** The config files in a ConfigMap, as agents that mount all of its keys have them. */
function configFilesOf({ metadata, data = {} }: KubeObject): readonly ConfigFile[] {
  const names = Object.keys(data).filter(isConfigFileName);
  return names.map((name) => {
    const text = data[name] ?? '';
    const file = { name: `ConfigMap ${metadata.name}, ${name}`, text };
    return { name, text, embeddedIn: { file, line: 1, column: 1, lineByLine: true } };
  });
}

/** The ConfigMap as server-side apply takes it. */
export function configMapOf({ entries, use }: ListPlan, namespace: string, options: Options) {
  // An acceptance is for one write.
  const annotations = { [LAST_USE]: formatLastUse(use), [ACCEPT]: '' };
  const metadata = { name: NAME, namespace, labels: { 'app.kubernetes.io/name': NAME }, annotations };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { [NAME]: textOf(entries, options) } };
}

/** Whether the ConfigMap holds exactly what is to be written. */
export function isWritten(wanted: ReturnType<typeof configMapOf>, own: KubeObject | undefined): boolean {
  const lastUse = own?.metadata.annotations?.[LAST_USE];
  return own?.data?.[NAME] === wanted.data[NAME] && lastUse === wanted.metadata.annotations[LAST_USE];
}

/** The field managers, other than this program, that own what it writes: they have edited it. */
export function editorsOf(own: KubeObject | undefined): readonly string[] {
  return (own?.metadata.managedFields ?? []).flatMap(({ manager = 'unknown', fieldsV1 = {} }) => {
    const fields = JSON.stringify(fieldsV1);
    const isEditor = fields.includes(`"f:${NAME}"`) || fields.includes(`"f:${LAST_USE}"`);
    return isEditor && manager !== NAME ? manager : [];
  });
}
