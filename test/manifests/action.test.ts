import assert from 'node:assert/strict';
import { chmod, mkdir, realpath, symlink, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { runAction } from '../image/action.ts';
import { BINARY } from '../lab/binary.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { KUBERNETES } from './kustomize.ts';
import { builder } from './support.ts';

/** The layout that the page on manifests recommends, with the base of this checkout. */
const kustomization = (base: string, cidr: string) => `resources: [${base}]
patches:
  - patch: |-
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: ip-masq-operator, namespace: kube-system}
      data:
        ip-masq-operator: |
          nonMasqueradeCIDRs: [${cidr}]
`;

describe('the GitHub Action', () => {
  it('checks what a kustomization with a patch builds', async () => {
    await using temporary = await temporaryDirectory();
    const dir = await realpath(temporary.path);
    const mine = join(dir, 'my-cluster');
    const bin = join(dir, 'bin');
    for (const one of [mine, bin]) await mkdir(one);
    await symlink(BINARY, join(bin, 'ip-masq-agent'));
    const base = relative(mine, join(await realpath(KUBERNETES), 'base'));
    const check = async (runner: string, cidr: string, inputs: Readonly<Record<string, string>> = {}) => {
      await writeFile(join(mine, 'kustomization.yaml'), kustomization(base, cidr));
      await writeFile(join(dir, 'built.yaml'), await builder.build(mine));
      await writeFile(
        join(bin, 'kubectl'),
        `#!/bin/sh\ntest "$*" = 'kustomize ${mine}' && cat ${dir}/built.yaml\n`,
      );
      await chmod(join(bin, 'kubectl'), 0o755);
      return await runAction(join(dir, runner), { version: 'v0', kustomization: mine, ...inputs }, bin);
    };
    const good = await check('good', '10.0.0.0/8');
    assert.deepEqual([good.code, good.stdout], [0, ''], good.stderr);
    const bad = await check('bad', '10.0.0.1/8');
    assert.equal(bad.code, 3, bad.stderr);
    assert.ok(bad.stdout.startsWith('::error title=ip-masq-agent cidr::standard input:'), bad.stdout);
    // Helm's output is a file.
    const rendered = await check('rendered', '10.0.0.1/8', {
      kustomization: '',
      paths: join(dir, 'built.yaml'),
    });
    assert.match(rendered.stdout, /^::error file=\S*built\.yaml,line=\d+,col=\d+,title=ip-masq-agent cidr::/);
    assert.equal((await check('nothing', '10.0.0.0/8', { kustomization: '' })).code, 1);
    const both = await check('both', '10.0.0.0/8', {
      paths: mine,
      flags: '--strict "--must-masquerade=8.0.0.0/8 from 10.244.0.0/16"',
    });
    assert.equal(both.code, 0, both.stdout + both.stderr);
  });
});
