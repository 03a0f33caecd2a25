import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { load } from 'js-yaml';
import { type Files, ProjectedVolume } from '../lab/volume.ts';
import type { Docker } from './docker.ts';

/** A container that runs as the DaemonSet's manifest says. */
export interface AgentContainer extends AsyncDisposable {
  readonly id: string;
  readonly volume: ProjectedVolume;
  /** The file in which kubelet would read why the container ended. */
  readonly terminationMessage: string;
  logs(): Promise<string>;
  /** Waits until it has ended by itself. */
  exitCode(): Promise<number>;
}

/** The part of the manifest that tells how the container runs. */
interface Pod {
  readonly hostNetwork?: boolean;
  readonly securityContext?: unknown;
  readonly containers: readonly [Container, ...Container[]];
}

interface Container {
  readonly args: readonly string[];
  readonly resources: { readonly limits: { readonly memory: string } };
  readonly securityContext?: unknown;
  readonly terminationMessagePath: string;
  readonly volumeMounts: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly readOnly?: boolean;
  }[];
}

const MANIFEST = new URL('../../examples/kubernetes/base/daemonset.yaml', import.meta.url);

/** What the manifest says about security. */
const SECURITY = {
  hostNetwork: true,
  pod: { runAsUser: 0, runAsGroup: 0, seccompProfile: { type: 'RuntimeDefault' } },
  container: {
    privileged: false,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'], add: ['NET_ADMIN', 'NET_RAW'] },
  },
};

/** The same for `docker run`, whose default is the seccomp profile that Kubernetes calls RuntimeDefault. */
const SECURITY_FLAGS = [
  '--network=host',
  '--user=0:0',
  '--security-opt=no-new-privileges',
  '--read-only',
  '--cap-drop=ALL',
  '--cap-add=NET_ADMIN',
  '--cap-add=NET_RAW',
];

/**
 * Starts the agent as the DaemonSet's manifest says.
 *
 * @param dir a directory that is not there yet, for what kubelet and the node would have
 * @param args more arguments, behind those of the manifest
 * @param isNftables whether the component nftables has taken NET_RAW and the lock away
 */
export async function startAgent(
  docker: Docker,
  image: string,
  dir: string,
  files: Files,
  args: readonly string[],
  isNftables = false,
): Promise<AgentContainer> {
  const manifest = load(readFileSync(MANIFEST, 'utf8')) as {
    readonly spec: { readonly template: { readonly spec: Pod } };
  };
  const { hostNetwork, securityContext: pod, containers } = manifest.spec.template.spec;
  const [container, ...more] = containers;
  assert.deepEqual(more, []);
  assert.deepEqual({ hostNetwork, pod, container: container.securityContext }, SECURITY);

  await mkdir(dir);
  const volume = await ProjectedVolume.create(join(dir, 'config'), files);
  const terminationMessage = join(dir, 'termination-message');
  // The lock of the node is the one that the tools of the lab take too.
  const lock = docker.node.env['XTABLES_LOCKFILE'] ?? '';
  for (const file of [terminationMessage, lock]) await writeFile(file, '');
  const state = join(dir, 'state');
  await mkdir(state);
  const sources: Readonly<Record<string, string>> = { config: volume.dir, 'xtables-lock': lock, state };
  // Docker writes 64m for 64Mi, and gives as much swap again unless told otherwise. A node has none.
  const mounts = container.volumeMounts.filter(({ name }) => !(isNftables && name === 'xtables-lock'));
  const memory = container.resources.limits.memory.replace(/i$/, '').toLowerCase();
  const id = await docker.must(
    ...['run', '--detach', '--name', `agent-${basename(dir)}`],
    ...SECURITY_FLAGS.filter((flag) => !(isNftables && flag === '--cap-add=NET_RAW')),
    ...[`--memory=${memory}`, `--memory-swap=${memory}`],
    ...mounts.map(
      ({ name, mountPath, readOnly = false }) =>
        `--volume=${sources[name]}:${mountPath}${readOnly ? ':ro' : ''}`,
    ),
    `--volume=${terminationMessage}:${container.terminationMessagePath}`,
    ...[image, ...container.args, ...args],
  );
  return {
    id,
    volume,
    terminationMessage,
    logs: async () => {
      const { stdout, stderr } = await docker.run('logs', id);
      return stdout + stderr;
    },
    exitCode: async () => Number(await docker.must('wait', id)),
    [Symbol.asyncDispose]: async () => {
      await docker.run('rm', '--force', id);
    },
  };
}
