import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { load, loadAll } from 'js-yaml';
import { anyConfigFiles } from '../unit/config/any-config-files.ts';
import { almostConfig } from '../unit/config/arbitrary.ts';

import { CONFIGS, isConfig, SLIPS } from './config-slips.ts';
import { type ConfigMap, ofKind } from './documents.ts';
import { KUBERNETES, kustomizationsOf } from './kustomize.ts';
import { readPolicy } from './policy.ts';
import { schemaProblems } from './schema.ts';
import { objectsOf } from './support.ts';

const errors = readPolicy('admission/errors.yaml');
const warnings = readPolicy('admission/warnings.yaml');

describe('the policy that refuses', () => {
  it('denies, and lets pass what it cannot evaluate', () => assert.deepEqual(errors.actions, ['Deny']));

  for (const [text, said] of SLIPS)
    it(`refuses ${JSON.stringify(text)}, and says what to write`, () => {
      assert.equal(isConfig(text), false, 'the agent takes it');
      const messages = errors.review(configMap({ 'ip-masq-a': text }));
      assert.match(messages.join('\n'), said);
    });

  for (const text of CONFIGS)
    it(`takes ${JSON.stringify(text)}`, () => {
      assert.equal(isConfig(text), true, 'the agent does not take it');
      assert.deepEqual(errors.review(configMap({ 'ip-masq-a': text })), []);
    });

  it('takes what the agent takes, in all of the examples', async () => {
    for (const path of ['base', ...kustomizationsOf('overlays')])
      for (const object of ofKind('ConfigMap', await objectsOf(path))) {
        assert.deepEqual(errors.review(object), [], path);
        assert.deepEqual(warnings.review(object), [], path);
      }
  });

  it('takes the examples that stand beside', () => {
    for (const name of ['config-custom.yaml', 'config-reconciled.yaml']) {
      const text = readFileSync(join(KUBERNETES, '..', name), 'utf8');
      const object = load(text) as ConfigMap;
      assert.deepEqual([...schemaProblems(object), ...errors.review(object), ...warnings.review(object)], []);
    }
  });

  it('takes every config that the agent takes', () => {
    const texts = fc.oneof(
      anyConfigFiles().map(({ texts }) => Object.values(texts)),
      fc.array(almostConfig(), { minLength: 1, maxLength: 3 }),
    );
    fc.assert(
      fc.property(texts, (some) => {
        const taken = some.filter(isConfig);
        const data = Object.fromEntries(taken.map((text, index) => [`ip-masq-${index}`, text]));
        assert.deepEqual(errors.review(configMap(data)), []);
      }),
      { numRuns: 1_000 },
    );
  });

  it('looks at each config file of a ConfigMap, and at nothing else in it', () => {
    const [good, bad] = ['masqLinkLocal: true\n', 'masqLinklocal4: true\n'];
    const review = (data: Record<string, string>, name?: string) =>
      errors.review(configMap(data, name)).length;
    assert.equal(review({ 'ip-masq-a': good, 'ip-masq-b': bad }), 1);
    assert.equal(review({ 'ip-masq-a': good, 'README.md': bad, config: bad }), 0);
    assert.equal(review({ config: bad }, 'ip-masq-agent'), 1);
    assert.equal(review({ config: bad }, 'another'), 0);
    assert.deepEqual(errors.review({ kind: 'ConfigMap', metadata: { name: 'x' } }), []);
  });

  it('leaves to the agent what would cost the API server too much', () => {
    const text = 'nonMasqueradeCIDRs: [10.0.0.1/8]\n';
    const long = (size: number, ...more: readonly string[]) =>
      configMap({
        'ip-masq-a': `#${'x'.repeat(size - text.length - 2)}\n${text}`,
        ...Object.fromEntries(more.map((other, index) => [`ip-masq-b${index}`, other])),
      });
    assert.equal(errors.review(long(65_536)).length, 1);
    assert.deepEqual(errors.review(long(65_537)), []);
    assert.equal(errors.review(long(65_000, 'masqLinkLocal: true\n')).length, 1);
    assert.deepEqual(errors.review(long(65_000, '#'.repeat(600))), [], 'too large together');
    const keys = Array.from({ length: 1_000 }, () => '');
    assert.equal(errors.review(long(1_000, ...keys.slice(1))).length, 1);
    assert.deepEqual(errors.review(long(1_000, ...keys)), [], 'too many keys');
  });
});

describe('the policy that warns', () => {
  it('warns, and stores', () => assert.deepEqual(warnings.actions, ['Warn']));

  for (const [data, name, said] of [
    [{ 'ip-masq': '' }, 'x', /does not read the key ip-masq: .* begins with ip-masq-; rename it/],
    [{ 'ip-masq.yaml': '', 'ip-masq-a': '' }, 'x', /the key ip-masq\.yaml/],
    [
      Object.fromEntries(
        Array.from({ length: 1_000 }, (_, index) => [`ip-masq.${index}${'x'.repeat(230)}`, '']),
      ),
      'x',
      /the key ip-masq\.0x+, (?:ip-masq\.\dx+, ){3}ip-masq\.4x+ and 995 more: the name/,
    ],
    [{ nonMasqueradeCIDRs: '' }, 'ip-masq-operator', /no key of ConfigMap ip-masq-operator/],
    [{ config: '' }, 'azure-ipmasq', /no key of ConfigMap azure-ipmasq/],
  ] as const)
    it(`tells of ${Object.keys(data).join().slice(0, 60)} in ${name}`, () => {
      assert.match(warnings.review(configMap(data, name)).join('\n'), said);
      assert.deepEqual(errors.review(configMap(data, name)), []);
    });

  for (const [data, name] of [
    [{ 'ip-masq-a': '' }, 'x'],
    [{ config: '' }, 'ip-masq-agent'],
    [{ config: '' }, 'coredns'],
  ] as const)
    it(`is silent about ${Object.keys(data)} in ${name}`, () =>
      assert.deepEqual(warnings.review(configMap(data, name)), []));
});

describe('both policies', () => {
  it('are what Kubernetes knows', async () => {
    const objects = await objectsOf('admission');
    assert.equal(objects.length, 4);
    for (const object of objects) assert.deepEqual(schemaProblems(object), []);
  });
});

describe('what people copy by hand', () => {
  for (const file of ['admission/exec.yaml', 'windows.yaml'])
    it(`is what Kubernetes knows: ${file}`, () => {
      const objects = loadAll(readFileSync(join(KUBERNETES, file), 'utf8'));
      assert.ok(objects.length > 0);
      for (const object of objects) assert.deepEqual(schemaProblems(object), []);
    });
});

function configMap(data: Readonly<Record<string, string>>, name = 'ip-masq-x'): ConfigMap {
  return { kind: 'ConfigMap', metadata: { name }, data };
}
