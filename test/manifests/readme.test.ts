import assert from 'node:assert/strict';
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { COMMANDS } from '../../cmd/ip-masq-agent/commands.ts';
import { flagValues } from '../../cmd/ip-masq-agent/flag-table.ts';
import { FLAGS } from '../../cmd/ip-masq-agent/flags.ts';
import { parseArgs } from '../../cmd/ip-masq-agent/parse-args.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { audit } from './audit.ts';
import { containersOf, type KubernetesObject, theDaemonSet } from './documents.ts';
import { documentsOf, KUBERNETES, kustomizationsOf } from './kustomize.ts';
import { readPolicy } from './policy.ts';
import { builders, objectsOf } from './support.ts';

const README = readFileSync(join(KUBERNETES, 'README.md'), 'utf8');
const ADMISSION = readFileSync(join(KUBERNETES, 'admission/README.md'), 'utf8');

describe('the READMEs of examples/kubernetes', () => {
  it('tell of every directory that can be applied', () => {
    const all = ['base', 'admission', ...kustomizationsOf('overlays'), ...kustomizationsOf('components')];
    for (const path of all) assert.ok(README.includes(`[${path}](${path})`), path);
  });

  it('lead to files that there are', () => {
    for (const [dir, text] of [
      ['', README],
      ['admission', ADMISSION],
    ] as const)
      for (const [, link = ''] of text.matchAll(/\]\(([^)#:]+)\)/g))
        assert.ok(existsSync(join(KUBERNETES, dir, link)), link);
  });

  it('show a kustomization that builds as it stands, and nothing is wrong with what it builds', async () => {
    const [, text = ''] = /```yaml\n# my-cluster\/kustomization.yaml\n([\s\S]*?)```/.exec(README) ?? [];
    await using temporary = await temporaryDirectory();
    const dir = join(temporary.path, 'my-cluster');
    await mkdir(dir);
    cpSync(KUBERNETES, join(temporary.path, 'examples/kubernetes'), { recursive: true });
    writeFileSync(join(dir, 'kustomization.yaml'), text);
    const objects = documentsOf((await builders[0]?.build(dir)) ?? '').yaml11 as KubernetesObject[];
    assert.deepEqual(audit(objects), []);
    const [agent] = containersOf(theDaemonSet(objects));
    assert.equal(agent?.image, 'registry.internal/networking/ip-masq-agent:v0.1.0');
  });

  it('call the agent with flags that it has, in the image of the base', async () => {
    const text = (README + ADMISSION).replaceAll(/\n {10}(?=check)/g, ' ');
    const lines = [...text.matchAll(/ip-masq-agent(\S*) (check [^`\n]*)/g)];
    assert.equal(lines.length, 4);
    const [agent] = containersOf(theDaemonSet(await objectsOf('base')));
    for (const [, tag = '', line = ''] of lines) {
      const { command, texts } = parseArgs(line.trim().split(/\s+/));
      flagValues({ ...FLAGS, ...COMMANDS[command]?.own }, texts);
      if (tag !== '') assert.equal(`registry.example.com/ip-masq-agent${tag}`, agent?.image);
    }
  });

  it('show what the API server says as the policy says it', () => {
    const [, policy, said] = /policy '(.*)' with binding .* denied request: (.*)/i.exec(ADMISSION) ?? [];
    const data = { 'ip-masq-operator': 'nonMasqueradeCIDRs: [10.0.0.1/8]' };
    const messages = readPolicy('errors.yaml').review({ kind: 'ConfigMap', metadata: { name: 'x' }, data });
    assert.deepEqual([policy, [said]], ['ip-masq-agent-config-errors', messages]);
  });
});
