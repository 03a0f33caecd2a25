import assert from 'node:assert/strict';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { CIDR_KEYS } from '../../../lib/config/keys.ts';
import { type LoadedConfig, loadConfig } from '../../../lib/config/load.ts';
import { formatProblem } from '../../../lib/config/problem.ts';
import { ProjectedVolume } from '../../lab/volume.ts';
import { directoryOf, kindsOf, merge, namesOf, OPTIONS } from './support.ts';

describe('the limit of CIDRs of all config files together', () => {
  const listOf = (from: number, count: number): string =>
    `nonMasqueradeCIDRs: [${Array.from({ length: count }, (_, index) => `10.${from + index}.0.0/16`)}]\n`;

  it('lets as many pass', () => {
    const { config, lines } = merge({ a: listOf(0, 2), b: listOf(2, 2) }, { cidrLimitMax: 4, cidrLimit: 4 });
    assert.deepEqual(lines, []);
    assert.equal(config?.nonMasqueradeCIDRs.length, 4);
  });

  it('is an error of the first config file that exceeds it', () => {
    const texts = { a: listOf(0, 2), b: listOf(2, 3), c: listOf(5, 1) };
    assert.deepEqual(merge(texts, { cidrLimitMax: 4, cidrLimit: 4 }).lines, [
      'b: error: all config files together list 6 CIDRs, but may list only 4; join CIDRs into wider ones, or start the agent with a larger --cidr-limit-max',
    ]);
  });

  it('does not hide conflicts between those that are within it', () => {
    const texts = { a: listOf(0, 3), b: listOf(0, 1), c: listOf(0, 3) };
    const { problems } = merge(texts, { cidrLimitMax: 4, cidrLimit: 4 });
    assert.deepEqual(kindsOf(problems), ['cidr-limit', 'duplicate']);
  });

  for (const key of [...CIDR_KEYS, 'masqueradeAddresses'])
    it(`leaves conflicts between those behind it unsaid: ${key}`, () => {
      const item =
        key === 'masqueradeAddresses' ? '{destination: 10.0.0.0/8, address: 11.0.0.0/8}' : '10.0.0.0/8';
      const text = `${key}: [${item}, ${item}]\n`;
      const { problems } = merge({ a: text, b: text }, { cidrLimitMax: 2 });
      assert.equal(kindsOf(problems).filter((kind) => kind === 'duplicate').length, 1);
    });
});

describe('a config file that must be there', () => {
  const required = { requiredFiles: ['ip-masq-a', 'ip-masq-b'] };

  it('is an error if it is not, and no check is asked', () => {
    const checkVerdicts = () => assert.fail();
    assert.deepEqual(merge({ 'ip-masq-b': '{}' }, { ...required, checkVerdicts }).lines, [
      'error: the config file ip-masq-a is not there, but --require-file names it; restore its ConfigMap or the key that is mounted under this name; if it is to go, change the flag',
    ]);
    assert.equal(merge({}, required).lines.length, 2);
  });

  it('may be empty', () => {
    assert.deepEqual(merge({ 'ip-masq-a': '{}', 'ip-masq-b': '{}' }, required).lines, []);
  });

  it('is not missed if something could not be read', async () => {
    const { problems } = await loadConfig('/nonexistent', { ...OPTIONS, ...required });
    assert.deepEqual(kindsOf(problems), ['unreadable']);
  });
});

describe('many problems', () => {
  const mistakes = (count: number) => Array.from({ length: count }, (_, index) => `k${index}: 1\n`).join('');

  it('of several config files are counted together', () => {
    const { problems, lines } = merge({ a: mistakes(700), b: mistakes(700) });
    assert.equal(problems.length, 1001);
    assert.match(lines.at(-1) ?? '', /: 400 more errors;/);
  });

  it('leave no room for many keys and items in later config files, however small these are', () => {
    const texts = Object.fromEntries(
      Array.from({ length: 20 }, (_, index) => [`s${index}`, '-\n'.repeat(700)]),
    );
    const { lines } = merge(texts);
    assert.match(lines[10] ?? '', /a config must be a map of keys/);
    assert.match(
      lines[11] ?? '',
      /^s11:301:1: error: has too many keys and items, counting those of earlier config files; list fewer CIDRs/,
    );
  });

  it('that conflicts are do not hide an error behind them', () => {
    const duplicates = `cidrLimit: 1500\nnonMasqueradeCIDRs:\n${'- 10.0.0.0/8\n'.repeat(1500)}`;
    const { config, problems, lines } = merge({ a: duplicates, b: '[' }, { cidrLimitMax: 1500 });
    assert.equal(config, undefined);
    assert.equal(problems[0]?.kind, 'syntax');
    assert.equal(problems.length, 1001);
    assert.match(lines.at(-1) ?? '', /: 500 more infos;/);
  });
});

describe('merging config files', () => {
  it('takes every warning for an error where it is strict, and leaves remarks alone', () => {
    const texts = {
      a: 'masqLinkLocal: true\nnonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8]',
      b: '# nothing',
      c: 'masqLinkLocal: false',
    };
    const severities = (strict: boolean) => merge(texts, { strict }).problems.map(({ severity }) => severity);
    assert.deepEqual(severities(false), ['warning', 'warning', 'info']);
    assert.deepEqual(severities(true), ['error', 'error', 'info']);
    assert.equal(merge(texts).config?.nonMasqueradeCIDRs.length, 1);
    assert.equal(merge(texts, { strict: true }).config, undefined);
    assert.ok(merge({ a: 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8]' }, { strict: true }).config);
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

  it('reads no more config files than --config-limit lets pass', async () => {
    const text = '#'.repeat(8);
    await using directory = await directoryOf({ 'ip-masq-a': text, 'ip-masq-b': text, 'ip-masq-c': text });
    const { problems, configFiles } = await loadConfig(directory.path, { ...OPTIONS, configLimit: 16 });
    assert.deepEqual(namesOf(configFiles), ['ip-masq-a', 'ip-masq-b']);
    assert.equal(
      problems.map(formatProblem)[0],
      'ip-masq-c: error: all config files together are larger than 16 bytes; from this one on they are not read; use wider CIDRs, remove comments, or start the agent with a larger --config-limit',
    );
    assert.equal((await loadConfig(directory.path, { ...OPTIONS, configLimit: 24 })).configFiles.length, 3);
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
