import { COMMANDS } from '../../cmd/ip-masq-agent/commands.ts';
import { UsageError } from '../../cmd/ip-masq-agent/exit.ts';
import { type FlagTexts, flagValues, type Values } from '../../cmd/ip-masq-agent/flag-table.ts';
import { FLAGS } from '../../cmd/ip-masq-agent/flags.ts';
import { configOptions } from '../../cmd/ip-masq-agent/from-flags.ts';
import { parseArgs } from '../../cmd/ip-masq-agent/parse-args.ts';
import { byteOrder } from '../../lib/config/config-file.ts';
import { mergeConfigFiles } from '../../lib/config/load.ts';
import { formatProblem } from '../../lib/config/problem.ts';
import {
  type Container,
  containersOf,
  type DaemonSet,
  isOurs,
  type KubernetesObject,
  ofKind,
} from './documents.ts';

/** What kubelet may put for a field of the pod: what is to be understood whatever it is. */
const FIELDS: Readonly<Record<string, string>> = { 'status.hostIP': '192.0.2.1' };

/** Flags that the agent would refuse. The other program that reads our configs, v1, takes none that we do not. */
export function flagProblems(daemonSet: DaemonSet): readonly string[] {
  return containersOf(daemonSet).flatMap((container) => {
    try {
      lineOf(container);
      return [];
    } catch (error) {
      if (error instanceof UsageError) return [`${container.name}: ${error.message}`];
      throw error;
    }
  });
}

/** What the agent would refuse, or warn of, in what the ConfigMaps hold. */
export function configProblems(
  daemonSet: DaemonSet,
  objects: readonly KubernetesObject[],
): readonly string[] {
  const configFiles = mountedConfigFiles(daemonSet, objects);
  return containersOf(daemonSet)
    .filter(isOurs)
    .flatMap((container) => {
      const { flags } = lineOf(container);
      // An example is without even a warning.
      const { problems } = mergeConfigFiles(configFiles, { ...configOptions(flags), strict: true });
      return problems.filter(({ severity }) => severity === 'error').map(formatProblem);
    });
}

/** Where a server of the container listens; undefined where it has none. */
export function listenHost(
  container: Container,
  which: 'probes' | 'scrapes' = 'probes',
): { readonly host: string; readonly port: number } | undefined {
  const { command, flags, texts } = lineOf(container);
  const address = {
    run: flags[which === 'probes' ? 'metrics-bind-address' : 'scrape-bind-address'],
    render: which === 'probes' ? texts.get('health-bind-address')?.[0] : undefined,
  }[command];
  const [, host = '', port] = /^\[?(.*?)\]?:(\d+)$/.exec(address ?? '') ?? [];
  return port === undefined ? undefined : { host, port: Number(port) };
}

type Flags = Values<typeof FLAGS>;

/** @throws {UsageError} */
function lineOf(container: Container): {
  readonly command: string;
  readonly flags: Flags;
  readonly texts: FlagTexts;
} {
  const { command, flagTexts: texts } = parseArgs(
    (container.args ?? []).map((arg) => substituted(arg, container)),
  );
  // All that a command has of its own is looked at too, but only what all have is of interest.
  flagValues(COMMANDS[command]?.own ?? {}, texts);
  return { command, flags: flagValues(FLAGS, texts), texts };
}

/** As kubelet does it: `$(NAME)` of a variable that there is. */
function substituted(arg: string, { env = [] }: Container): string {
  return arg.replace(/\$\((\w+)\)/g, (reference, name: string) => {
    const variable = env.find((candidate) => candidate.name === name);
    return variable?.value ?? FIELDS[variable?.valueFrom?.fieldRef?.fieldPath ?? ''] ?? reference;
  });
}

/** The files of /etc/config as the projected volume makes them. */
function mountedConfigFiles({ spec }: DaemonSet, objects: readonly KubernetesObject[]) {
  const items = spec.template.spec.volumes.flatMap(({ projected }) =>
    (projected?.sources ?? []).flatMap(({ configMap }) =>
      (configMap?.items ?? []).map(({ key, path }) => ({ configMap: configMap?.name, key, path })),
    ),
  );
  const texts = items.flatMap(({ configMap, key, path }) => {
    const found = ofKind('ConfigMap', objects).find(({ metadata }) => metadata.name === configMap);
    const text = found?.data?.[key];
    return text === undefined ? [] : [{ name: path, text }];
  });
  return texts.sort((a, b) => byteOrder(a.name, b.name));
}
