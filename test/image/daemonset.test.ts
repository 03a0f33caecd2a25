import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { dockerFlags, examplePod, type Pod } from './daemonset.ts';

const PATHS = {
  projected: '/lab/config',
  host: { '/run/xtables.lock': '/lab/lock' },
  terminationMessage: '/lab/message',
};

const CONTAINER = { name: 'agent' };

describe('the flags of docker run', () => {
  it('are for the manifest of the examples those of the least privilege', () => {
    assert.deepEqual(dockerFlags(examplePod(), PATHS).toSorted(), [
      '--cap-add=NET_ADMIN',
      '--cap-add=NET_RAW',
      '--cap-drop=ALL',
      '--memory-swap=67108864',
      '--memory=67108864',
      '--network=host',
      '--read-only',
      '--security-opt=no-new-privileges',
      '--user=0',
      '--volume=/lab/config:/etc/config:ro',
      '--volume=/lab/lock:/run/xtables.lock',
      '--volume=/lab/message:/dev/termination-log',
    ]);
  });

  for (const [what, pod, message] of [
    ['a network of its own', { containers: [CONTAINER] }, /share the network/],
    ['two containers', { hostNetwork: true, containers: [CONTAINER, CONTAINER] }, /not one container/],
    [
      'privileges',
      { hostNetwork: true, containers: [{ ...CONTAINER, securityContext: { privileged: true } }] },
      /privileged: true is not known/,
    ],
    [
      'no seccomp profile',
      {
        hostNetwork: true,
        securityContext: { seccompProfile: { type: 'Unconfined' } },
        containers: [CONTAINER],
      },
      /seccompProfile: .*Unconfined.* is not known/,
    ],
    [
      'a volume of another kind',
      {
        hostNetwork: true,
        containers: [{ ...CONTAINER, volumeMounts: [{ name: 'x', mountPath: '/x' }] }],
        volumes: [{ name: 'x', hostPath: { path: '/etc' } }],
      },
      /volume x: the lab has nothing for it/,
    ],
  ] as const satisfies readonly (readonly [string, Pod, RegExp])[]) {
    it(`are refused to a pod with ${what}`, () => assert.throws(() => dockerFlags(pod, PATHS), message));
  }
});
