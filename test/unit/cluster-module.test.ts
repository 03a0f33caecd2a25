import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { withVersion } from '../cluster/local/module.ts';

const GO_MOD = readFileSync(new URL('../cluster/local/go.mod', import.meta.url), 'utf8');
const [, own = ''] = /\tk8s\.io\/kubernetes v(\S+)/.exec(GO_MOD) ?? [];

describe('the Go module of the cluster', () => {
  it('is that of the repository if no version is wanted, or the same', () => {
    for (const wanted of ['', own, `v${own}`]) assert.equal(withVersion(GO_MOD, wanted), GO_MOD);
  });

  it('requires every part of another version, and nothing else in a version of its own', () => {
    const text = withVersion(GO_MOD, '1.30.99');
    const versions = [...text.matchAll(/^\t(\S+)(?: => \S+)? (v\S+)/gm)];
    assert.ok(versions.length > 30);
    for (const [, name = '', version] of versions) {
      assert.match(name, /^k8s\.io\//);
      assert.equal(version, name === 'k8s.io/kubernetes' ? 'v1.30.99' : 'v0.30.99');
    }
  });

  it('is refused if what is wanted is no version', () => {
    for (const wanted of ['1.36', 'latest', '2.0.0', '1.36.3-rc.1'])
      assert.throws(() => withVersion(GO_MOD, wanted), /KUBERNETES=/);
  });
});
