import { appendFileSync, closeSync, openSync, renameSync, rmSync } from 'node:fs';
import { errorMessage, SystemError } from '../text/error.ts';
import { prettyJson } from '../text/escape.ts';
import { ask, inParallel } from './ask.ts';
import { type Kubectl, runKubectl } from './kubectl.ts';
import type { FleetNode } from './nodes.ts';
import { END, packed } from './tgz.ts';

const LONGEST_LOG = 4 * 2 ** 20;

/**
 * Writes a .tgz with what a bug report needs, whole or not at all.
 *
 * @param parallel how many nodes are asked at a time
 * @throws {SystemError} if it is not written
 */
export async function writeBundle(
  file: string,
  kubectl: Kubectl,
  nodes: readonly FleetNode[],
  addresses: readonly string[],
  parallel: number,
): Promise<void> {
  const work = `${file}.part`;
  try {
    // One that was interrupted by SIGKILL.
    rmSync(work, { force: true });
    const descriptor = openSync(work, 'wx', 0o600);
    const versions = await textOf(kubectl, ['version', '--output=json']);
    appendFileSync(descriptor, packed('', 'versions.json', versions));
    await inParallel(nodes, parallel, async (node) => {
      for await (const [name, text] of filesOf(kubectl, node, addresses))
        appendFileSync(descriptor, packed(node.name, name, text));
    });
    appendFileSync(descriptor, END);
    closeSync(descriptor);
    if (kubectl.signal.aborted) throw new Error('interrupted');
    renameSync(work, file);
  } catch (error) {
    rmSync(work, { force: true });
    throw new SystemError(`cannot write ${file}: ${errorMessage(error)}; no part of it is left`);
  }
}

/**
 * The answers of a node's agent, or why there are none, and its logs. The config comes as `check` reads it: comments may hold
 * anything, and stay out.
 */
async function* filesOf(kubectl: Kubectl, node: FleetNode, addresses: readonly string[]) {
  const explain = addresses.length === 0 ? [] : [['explain', '--live', ...addresses]];
  for (const command of [['status'], ['doctor'], ['check'], ...explain]) {
    const reply = await ask(kubectl, node, [...command, '--output=json']);
    yield [`${command[0]}.json`, prettyJson(reply)] as const;
  }
  const { name = '', container = 'ip-masq-agent' } = node.pod ?? {};
  const logs = ['logs', `pod/${name}`, `--container=${container}`, '--tail=1000'];
  for (const [file, ...more] of name === '' ? [] : [['log.txt'], ['log-previous.txt', '--previous']])
    yield [String(file), await textOf(kubectl, [...logs, ...more])] as const;
}

/** What kubectl prints, and why there is no more of it. The lines of config files that messages quote stay out, of text and of JSON. */
async function textOf(kubectl: Kubectl, args: readonly string[]): Promise<string> {
  const { stdout, told, killed } = await runKubectl(kubectl, args, LONGEST_LOG);
  const end = killed === undefined ? told : [...told, `kubectl was stopped: ${killed}`];
  const text = [stdout, ...end.map((line) => `${line}\n`)].join('');
  return text.replace(/^ +\d* +\| .*\n/gm, '').replace(/,"frame":\[(?:"(?:[^"\\]|\\.)*",?)*\]/g, '');
}
