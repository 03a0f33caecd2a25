import { open, realpath, stat } from 'node:fs/promises';
import { normalize } from 'node:path';
import { byteOrder, type ConfigFile, decodeFile, originIn, STDIN_NAME } from '../config/config-file.ts';
import { MAX_BYTES } from '../config/limits.ts';
import { fileProblem, type Problem, problem } from '../config/problem.ts';
import { printable } from '../text/escape.ts';
import { readTree } from './directory.ts';
import { collect, type Inputs, joined, NO_INPUTS, readText, unreadable, unreadableProblem } from './file.ts';
import { deliver } from './manifest.ts';
import type { Workload } from './workload.ts';

const STDIN = '-';

/** All that was read. */
export interface AllInputs {
  /** In byte order of their names. */
  readonly configFiles: readonly ConfigFile[];
  /** The manifests that problems may point into. */
  readonly manifests: readonly ConfigFile[];
  readonly problems: readonly Problem[];
  /** Those of the manifests, each with the config files that it reads. */
  readonly agents: readonly Workload[];
}

/**
 * Reads config files, manifests and directories of both, as if all that they hold were mounted on one node. It is an
 * error if they hold no config file.
 *
 * @param stdin called at most once
 */
export async function readInputs(
  paths: readonly string[],
  stdin: () => AsyncIterable<Buffer>,
  recursive = false,
): Promise<AllInputs> {
  const inputs: Inputs[] = [];
  // By paths without links: a file may be named by itself, and through its directory.
  const seen = new Set<string>();
  for (const path of paths) inputs.push(await readInput(path, stdin, recursive, seen));
  const all = together(inputs);
  return { ...all, problems: [...all.problems, ...nothingFound(paths, all)] };
}

/** All inputs as one; a config file that is in no manifest is one of each agent. */
function together(inputs: readonly Inputs[]): AllInputs {
  const { configFiles, manifests, problems } = joined(inputs);
  const delivered = deliver(manifests);
  return {
    configFiles: inOrder([...configFiles, ...delivered.configFiles]),
    manifests: manifests.map(({ file }) => file),
    problems: [...problems, ...delivered.problems],
    agents: delivered.agents.map((agent) => ({
      ...agent,
      configFiles: inOrder([...configFiles, ...agent.configFiles]),
    })),
  };
}

function inOrder(configFiles: readonly ConfigFile[]): ConfigFile[] {
  return configFiles.toSorted((a, b) => byteOrder(a.name, b.name));
}

async function readInput(
  path: string,
  stdin: () => AsyncIterable<Buffer>,
  recursive: boolean,
  seen: Set<string>,
): Promise<Inputs> {
  try {
    const real = path === STDIN ? STDIN : await realpath(path).catch(() => path);
    if (seen.has(real)) return NO_INPUTS;
    if (path !== STDIN && (await stat(path)).isDirectory()) return await readTree(path, recursive, seen);
    seen.add(real);
    if (path !== STDIN)
      return readText(normalize(path), await collect((await open(path)).createReadStream()));
    const bytes = await collect(stdin());
    // No byte at all is what a program before the pipe leaves if it fails.
    return bytes.length === 0 ? NO_INPUTS : readText(STDIN_NAME, bytes);
  } catch (error) {
    return unreadable(nameOf(path), error);
  }
}

/** The text of one file that is neither a config file nor a manifest, of at most 1 MiB; a problem if it cannot be read. */
export async function readFile(path: string): Promise<ConfigFile | Problem> {
  try {
    const bytes = await collect((await open(path)).createReadStream(), MAX_BYTES);
    if (bytes.length > MAX_BYTES) return fileProblem('unreadable', path, 'is larger than 1 MiB', 'split it');
    return decodeFile(normalize(path), bytes);
  } catch (error) {
    return unreadableProblem(path, error);
  }
}

function nameOf(path: string): string {
  return path === STDIN ? STDIN_NAME : path;
}

function nothingFound(paths: readonly string[], { configFiles, problems }: AllInputs): readonly Problem[] {
  if (configFiles.length > 0 || problems.some(({ severity }) => severity === 'error')) return [];
  const names = paths.map((path) => printable(nameOf(path))).join(', ');
  const message = `no config file in ${names}: nothing was checked`;
  const remedy =
    'name a config file, or a manifest with a ConfigMap that has a key beginning with ip-masq-; for directories in a directory, use -R';
  return [problem('no-config-file', { message, remedy })];
}

/** A volume holds one file of each name. */
export function sameNames(configFiles: readonly ConfigFile[]): readonly Problem[] {
  return configFiles.flatMap((configFile, index): Problem[] => {
    const before = configFiles[index - 1];
    if (before?.name !== configFile.name) return [];
    return [
      problem('same-name', {
        at: originIn(configFile, 0),
        other: originIn(before, 0),
        message: `two config files are named ${printable(configFile.name)}, but a volume can hold only one of that name`,
        remedy: 'rename one; or, if they are for different nodes, check them one by one',
      }),
    ];
  });
}
