import { BINARY } from '../lab/binary.ts';
import { run } from '../lab/run.ts';
import { containersOf, isAgent, type KubernetesObject, ofKind } from './documents.ts';
import { schemaProblems } from './schema.ts';

/**
 * What is wrong with objects that are applied together: each by itself by Kubernetes' schema (a NodeReadinessRule has none here;
 * a scenario of test/cluster applies it), and all together by `check`, with the flags of the agent. Not even a warning may be left.
 */
export async function audit(objects: readonly KubernetesObject[]): Promise<readonly string[]> {
  const known = objects.filter(({ kind }) => kind !== 'NodeReadinessRule');
  const invalid = known.flatMap((object) =>
    schemaProblems(object).map((problem) => `${object.kind} ${object.metadata?.name}: ${problem}`),
  );
  const [container] = ofKind('DaemonSet', objects).filter(isAgent).flatMap(containersOf);
  if (container === undefined) return invalid;
  const flags = (container.args ?? []).filter((arg) => !arg.includes('$('));
  const input = objects.map((object) => JSON.stringify(object)).join('\n---\n');
  const command = { file: BINARY, args: ['check', '--strict', ...flags, '-'] };
  const { code, stdout, stderr } = await run(command, {}, { input });
  return code === 0 ? invalid : [...invalid, `${stdout}${stderr}`];
}
