import assert from 'node:assert/strict';
import type { AgentPod } from './agent.ts';
import { statusUrl } from './cluster.ts';
import { settledRules } from './nodes.ts';
import type { Lab, LabNode } from './scenario.ts';
import { until } from './wait.ts';

/** Deletes the agent's pod, and waits for a new one: it must start on the node as that is now. */
export async function replaceAgent(lab: Lab, node: LabNode): Promise<void> {
  const old = await agentOn(lab, node);
  await lab.kubectl.must('delete', 'pod', old.name);
  await readyOn(lab, node, ({ uid }) => uid !== old.uid);
}

/** The pod of the agent on the node. */
export async function agentOn({ agent }: Lab, { name }: LabNode): Promise<AgentPod> {
  return (await agent.pods()).find(({ node }) => node === name) ?? assert.fail(`no agent on ${name}`);
}

/** The dataplane that the agent uses: a label of `ip_masq_agent_build_info`. */
export async function dataplaneOn({ cluster }: Lab, { host }: LabNode): Promise<string | undefined> {
  const { body } = await host.ask('fetch', { url: statusUrl(cluster, '/metrics') });
  return /_build_info\{.*dataplane="(\w+)[^"]*"\}/.exec(body)?.[1];
}

/** The container of that pod. */
export async function containerOn(lab: Lab, node: LabNode): Promise<string | undefined> {
  return (await agentOn(lab, node)).container?.containerID;
}

/** What stays as it is if nothing happens to the agent. */
export async function stateOn(lab: Lab, node: LabNode) {
  const { uid, container } = await agentOn(lab, node);
  return { uid, container: container?.containerID, rules: await settledRules(node) };
}

/** Waits until the pod is Ready and as wanted. */
export async function readyOn(lab: Lab, node: LabNode, isWanted: (pod: AgentPod) => boolean): Promise<void> {
  await until(
    `a Ready agent on ${node.name}`,
    () => agentOn(lab, node),
    (pod) => pod.isReady && isWanted(pod),
  );
}
