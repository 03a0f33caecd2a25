import assert from 'node:assert/strict';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type LoadedConfig, loadConfig } from '../../../lib/config/load.ts';
import { ProjectedVolume } from '../../lab/volume.ts';
import { directoryOf, kindsOf, merge, namesOf, OPTIONS } from './support.ts';

describe('the limit of CIDRs of all config files together', () => {
  const listOf = (from: number, count: number): string =>
    `nonMasqueradeCIDRs: [${Array.from({ length: count }, (_, index) => `10.${from + index}.0.0/16`)}]\n`;

  it('is an error of the first config file that exceeds it', () => {
    const texts = { a: listOf(0, 2), b: listOf(2, 3), c: listOf(5, 1) };
    assert.deepEqual(merge(texts, { cidrLimitMax: 6, cidrLimit: 4 }).lines, []);
    assert.deepEqual(merge(texts, { cidrLimitMax: 4, cidrLimit: 4 }).lines, [
      'b: error: the config files up to this one list 5 CIDRs, but all together may list only 4; join CIDRs into wider ones, or start the agent with a larger --cidr-limit-max',
    ]);
  });
});

describe('many problems', () => {
  const mistakes = (count: number) => Array.from({ length: count }, (_, index) => `k${index}: 1\n`).join('');

  it('of one config file end the reading of others', () => {
    const { problems, lines } = merge({ a: mistakes(99), b: mistakes(99), c: mistakes(1) });
    assert.equal(problems.length, 101);
    assert.match(lines[99] ?? '', /^b:1:1: /);
    assert.match(lines[100] ?? '', /there are more problems than these 100/);
  });
});

describe('loading a directory', () => {
  it('reads, validates and merges its config files in byte order', async () => {
    await using directory = await directoryOf({
      'ip-masq-b': 'nonMasqueradeCIDRs: [10.0.0.0/8]',
      'ip-masq-B': 'nonMasqueradeCIDRs: [11.0.0.0/8]',
      other: '[',
    });
    const { config, problems, configFiles, projected } = await loadConfig(directory.path, OPTIONS);
    assert.deepEqual(problems, []);
    const texts = config?.nonMasqueradeCIDRs.map(({ value }) => value.text);
    assert.deepEqual(texts, ['11.0.0.0/8', '10.0.0.0/8']);
    for (const names of [config?.configFileNames, namesOf(configFiles)])
      assert.deepEqual(names, ['ip-masq-B', 'ip-masq-b']);
    assert.equal(projected, false);
  });

  it('returns the same object as long as nothing changes, valid or not', async () => {
    await using directory = await directoryOf({ 'ip-masq-a': 'nonMasqueradeCIDRs: [10.0.0.0/8]' });
    const load = (last?: LoadedConfig) => loadConfig(directory.path, OPTIONS, last);
    const write = (name: string, text: string) => writeFile(join(directory.path, name), text);
    let last = await load();
    assert.equal(await load(last), last);
    for (const change of [
      () => write('ip-masq-a', '[broken'),
      () => write('ip-masq-a', 'nonMasqueradeCIDRs: [11.0.0.0/8]'),
      () => write('ip-masqx', ''), // no config file, but a warning
      () => rm(join(directory.path, 'ip-masqx')),
      () => rename(join(directory.path, 'ip-masq-a'), join(directory.path, 'ip-masq-b')),
      () => rm(join(directory.path, 'ip-masq-b')),
    ]) {
      await change();
      const next = await load(last);
      assert.notEqual(next, last);
      assert.deepEqual(next, await load());
      assert.equal(await load(next), next);
      last = next;
    }
  });

  it('knows a volume from the first reading that finds one, although nothing else has changed', async () => {
    await using directory = await directoryOf({});
    const plain = await loadConfig(directory.path, OPTIONS);
    assert.equal(plain.projected, false);
    const volume = await ProjectedVolume.create(directory.path, {});
    const projected = await loadConfig(directory.path, OPTIONS, plain);
    assert.equal(projected.projected, true);
    // The defaults are never used in the place of lost data.
    await volume.loseData();
    const lost = await loadConfig(directory.path, OPTIONS, projected);
    assert.deepEqual(
      [lost.config, lost.projected, kindsOf(lost.problems)],
      [undefined, true, ['unreadable']],
    );
  });

  it('yields no config where one file of several is unreadable, and reports the others too', async () => {
    await using directory = await directoryOf({ 'ip-masq-a': 'foo: 1', 'ip-masq-b': Buffer.from([0xff]) });
    const { config, problems } = await loadConfig(directory.path, OPTIONS);
    assert.equal(config, undefined);
    assert.deepEqual(kindsOf(problems), ['encoding', 'unknown-key']);
  });
});
