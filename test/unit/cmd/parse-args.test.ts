import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { UsageError } from '../../../cmd/ip-masq-agent/exit.ts';
import { parseArgs } from '../../../cmd/ip-masq-agent/parse-args.ts';

describe('the command line', () => {
  it('has the defaults of the table', () => {
    const { flags, operands, ignored } = parseArgs([]);
    assert.equal(flags['config-dir'], '/etc/config');
    assert.equal(flags['masq-chain'], 'IP-MASQ-AGENT');
    assert.equal(flags['enable-ipv6'], false);
    assert.equal(flags['random-fully'], true);
    assert.equal(flags['resync-interval'], 60_000);
    assert.equal(flags['sync-timeout'], 30_000);
    assert.deepEqual(flags['to-ports'], []);
    assert.equal(flags.v, 2);
    assert.deepEqual([operands, ignored], [[], []]);
  });

  for (const argv of [['--v=4'], ['-v=4'], ['--v', '4'], ['-v', '4'], ['run', '-v', '4'], ['-v=1', '-v=4']]) {
    it(`takes the value from ${argv.join(' ')}`, () => assert.equal(parseArgs(argv).flags.v, 4));
  }

  for (const argv of [
    ['--enable-ipv6'],
    ['-enable-ipv6'],
    ['--enable-ipv6=true'],
    ['--enable-ipv6=1'],
    ['--enable-ipv6=T'],
  ]) {
    it(`turns a boolean on with ${argv}`, () => assert.equal(parseArgs(argv).flags['enable-ipv6'], true));
  }

  for (const argv of [['--random-fully=false'], ['--random-fully=0'], ['--random-fully=F']]) {
    it(`turns a boolean off with ${argv}`, () => assert.equal(parseArgs(argv).flags['random-fully'], false));
  }

  it('does not take the next word as the value of a boolean, as Go does not', () => {
    assert.deepEqual(parseArgs(['--enable-ipv6', 'false']).operands, ['false']);
  });

  for (const [text, ms] of [
    ['60', 60_000],
    ['90s', 90_000],
    ['1m30s', 90_000],
    ['500ms', 500],
  ] as const) {
    it(`reads --resync-interval=${text} as ${ms} ms`, () =>
      assert.equal(parseArgs([`--resync-interval=${text}`]).flags['resync-interval'], ms));
  }

  it('keeps "=" in a value, and an empty value', () => {
    const { flags } = parseArgs(['--config-dir=/a=b', '--metrics-bind-address=']);
    assert.deepEqual([flags['config-dir'], flags['metrics-bind-address']], ['/a=b', '']);
  });

  it('takes all behind -- for operands', () => {
    assert.deepEqual(parseArgs(['--', '--v=4', 'x']).operands, ['--v=4', 'x']);
  });

  it('reads port ranges', () => {
    assert.deepEqual(parseArgs(['--to-ports=80,1024-2000']).flags['to-ports'], [
      { first: 80, last: 80 },
      { first: 1024, last: 2000 },
    ]);
  });

  for (const [address, ok] of [
    ['127.0.0.1:9614', true],
    ['[::1]:9614', true],
    [':9614', true],
    ['::1:9614', false],
    ['[127.0.0.1]:9614', false],
    ['127.0.0.1:65536', false],
    ['localhost:9614', false],
  ] as const) {
    it(`${ok ? 'takes' : 'rejects'} --metrics-bind-address=${address}`, () => {
      const parse = () => parseArgs([`--metrics-bind-address=${address}`]);
      if (ok) assert.equal(parse().flags['metrics-bind-address'], address);
      else assert.throws(parse, UsageError);
    });
  }

  it('names the klog flags that it ignores', () => {
    const { ignored } = parseArgs([
      '--logtostderr',
      '-alsologtostderr=true',
      '--vmodule',
      'x=1',
      '--log-dir=/tmp',
    ]);
    assert.deepEqual(ignored, ['logtostderr', 'alsologtostderr', 'vmodule', 'log-dir']);
  });

  for (const argv of [
    ['--__proto__'],
    ['--constructor=1'],
    ['--toString'],
    ['-'],
    ['---v'],
    ['--=x'],
    ['--v'],
  ]) {
    it(`rejects ${argv}`, () => {
      if (argv[0] === '-') assert.throws(() => parseArgs(argv), /"-" is not a flag/);
      else assert.throws(() => parseArgs(argv), UsageError);
    });
  }

  it('says which flag was meant', () => {
    assert.throws(() => parseArgs(['--enable-ipv4']), /did you mean --enable-ipv6\?/);
  });
});
