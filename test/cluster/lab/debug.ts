import assert from 'node:assert/strict';
import type { List, Pod } from './objects.ts';
import type { Lab } from './scenario.ts';
import { until } from './wait.ts';

/** What only a person needs. */
const ATTENDED = '--attach';

/**
 * Runs a documented command of `kubectl debug` on a node, without a terminal: what its pod has printed, which is deleted then.
 *
 * @param variables of the shell, beside NODE and IMAGE
 */
export async function debugOn(
  { kubectl, cluster }: Pick<Lab, 'kubectl' | 'cluster'>,
  node: string,
  documented: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<string> {
  const all: Readonly<Record<string, string>> = { NODE: node, IMAGE: cluster.image, ...variables };
  const variable = (_: string, name: string) => all[name] ?? assert.fail(`no value of $${name}`);
  const args = documented
    .filter((word) => word !== ATTENDED)
    .map((word) => word.replace(/\$([A-Z]+)/g, variable));
  const before = await debugPods();
  await kubectl.must(...args);
  const { metadata } =
    (await until(
      `the debug pod on ${node} to end`,
      async () =>
        (await debugPods()).find((pod) => before.every((known) => known.metadata.uid !== pod.metadata.uid)),
      (pod) => pod?.status.phase === 'Succeeded' || pod?.status.phase === 'Failed',
    )) ?? assert.fail('no pod');
  // On a busy node kubelet may reset the connection.
  const { stdout } = await until(
    `the log of ${metadata.name}`,
    () => kubectl.run('logs', metadata.name),
    ({ code }) => code === 0,
  );
  await kubectl.must('delete', 'pod', metadata.name);
  return stdout;

  async function debugPods(): Promise<readonly Pod[]> {
    const { items } = await kubectl.get<List<Pod>>('pods');
    return items.filter((pod) => pod.metadata.name.startsWith(`node-debugger-${node}-`));
  }
}
