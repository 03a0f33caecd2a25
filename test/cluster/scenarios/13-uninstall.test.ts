import assert from 'node:assert/strict';
import { debugOn } from '../lab/debug.ts';
import { kubectlCommands, sectionOf } from '../lab/documentation.ts';
import { untilNoRules } from '../lab/own-rules.ts';
import { ALL_INSIDE, PODS_INSIDE, packets, podsInside, untilPackets } from '../lab/packets.ts';
import { scenario } from '../lab/scenario.ts';

scenario('the agent is uninstalled as the documentation says, and installed again', async (lab, t) => {
  const { agent, kubectl, nodes } = lab;
  const kustomization = { configFiles: podsInside(lab) };
  const commands = kubectlCommands(await sectionOf('docs/install.md', 'Uninstall'));
  assert.deepEqual(
    commands.map(([verb]) => verb),
    ['patch', 'rollout', 'delete', 'debug'],
  );
  const [patch = [], , , debug = []] = commands;
  const noRules = async () => {
    for (const node of nodes) assert.equal(await node.ownRules(), '', node.name);
    assert.deepEqual(await packets(lab), ALL_INSIDE);
  };
  const install = async () => {
    await agent.deploy(kustomization);
    await untilPackets(lab, PODS_INSIDE);
  };

  /** A pod on its way out may still run: it would write the rules again. */
  const uninstall = async () => {
    await agent.delete(kustomization);
    const pods = '--selector=app.kubernetes.io/name=ip-masq-agent';
    await kubectl.must('wait', 'pods', pods, '--for=delete', '--timeout=180s');
  };

  await install();
  await t.test('with --cleanup-on-exit no rule and no object is left', async () => {
    await kubectl.must(...patch);
    await agent.rolledOut();
    await uninstall();
    await untilNoRules(lab);
    await noRules();
    const left = await kubectl.must(
      'get',
      'daemonsets,configmaps,serviceaccounts',
      '--selector=app.kubernetes.io/name',
      '--output=name',
    );
    assert.equal(left, '');
  });

  await t.test('installed again, it works', install);

  await t.test('for a DaemonSet that is deleted already, cleanup in a debug pod of each node', async () => {
    await uninstall();
    for (const { name, ownRules } of nodes) assert.notEqual(await ownRules(), '', name);
    assert.deepEqual(await packets(lab), PODS_INSIDE);
    for (const { name } of nodes) assert.match(await debugOn(lab, name, debug), /removed/);
    await noRules();
  });

  await t.test('installed again, it works', install);
});
