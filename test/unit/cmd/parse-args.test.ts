import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { INPUT_FLAGS } from '../../../cmd/ip-masq-agent/command-flags.ts';
import { COMMANDS } from '../../../cmd/ip-masq-agent/commands.ts';
import { flagValues } from '../../../cmd/ip-masq-agent/flag-table.ts';
import { checkGiven, checkTogether, FLAGS } from '../../../cmd/ip-masq-agent/flags.ts';
import { keepsRunning, parseArgs } from '../../../cmd/ip-masq-agent/parse-args.ts';

describe('the command line', () => {
  it('without a word starts the agent with its defaults', () => {
    assert.partialDeepStrictEqual(parseArgs([]), { command: 'run', operands: [], ignored: [] });
  });

  for (const argv of [['--v=4'], ['-v=4'], ['--v', '4'], ['-v', '4'], ['run', '-v', '4'], ['-v=1', '-v=4']]) {
    it(`takes the value from ${argv.join(' ')}`, () => assert.equal(flagsOf(argv).v, 4));
  }

  for (const [argument, flag, value] of [
    ['--enable-ipv6', 'enable-ipv6', true],
    ['-enable-ipv6', 'enable-ipv6', true],
    ['--enable-ipv6=true', 'enable-ipv6', true],
    ['--enable-ipv6=1', 'enable-ipv6', true],
    ['--enable-ipv6=T', 'enable-ipv6', true],
    ['--random-fully', 'random-fully', true],
    ['--random-fully=1', 'random-fully', true],
    ['--random-fully=false', 'random-fully', false],
    ['--random-fully=0', 'random-fully', false],
    ['--random-fully=F', 'random-fully', false],
    ['--random-fully=tcp', 'random-fully', ['tcp']],
    ['--random-fully=sctp,tcp,tcp', 'random-fully', ['tcp', 'sctp']],
    ['--resync-interval=60', 'resync-interval', 60_000],
    ['--resync-interval=90s', 'resync-interval', 90_000],
    ['--resync-interval=1m30s', 'resync-interval', 90_000],
    ['--resync-interval=500ms', 'resync-interval', 500],
    ['--config-dir=/a=b', 'config-dir', '/a=b'],
    ['--metrics-bind-address=', 'metrics-bind-address', ''],
    ['--metrics-bind-address=127.0.0.1:9614', 'metrics-bind-address', '127.0.0.1:9614'],
    ['--metrics-bind-address=[::1]:9614', 'metrics-bind-address', '[::1]:9614'],
    ['--metrics-bind-address=:9614', 'metrics-bind-address', ':9614'],
    ['--metrics-bind-address=[127.0.0.1]:9614', 'metrics-bind-address', '[127.0.0.1]:9614'],
    ['--require-file=ip-masq-a,ip-masq-b', 'require-file', ['ip-masq-a', 'ip-masq-b']],
  ] as const)
    it(`reads ${argument}`, () => assert.deepEqual(flagsOf([argument])[flag], value));

  it('takes all behind -- for operands', () => {
    assert.deepEqual(parseArgs(['check', '--', '--v=4', 'x']).operands, ['--v=4', 'x']);
  });

  it('joins assertions that are given several times, of which an empty one means none', () => {
    const given = (...lists: readonly string[]) => flagsOf(lists.map((list) => `--must-masquerade=${list}`));
    const assertions = given('8.0.0.0/8,9.0.0.0/8', '', '8.0.0.0/8')['must-masquerade'];
    const texts = assertions.map(({ prefix }) => prefix.text);
    assert.deepEqual(texts, ['8.0.0.0/8', '9.0.0.0/8']);
  });

  it('rejects to drop in iptables if a command line asks for both, but not what an agent has found', () => {
    const flags = flagsOf(['--backend=iptables', '--invalid-packets=drop']);
    assert.throws(() => checkGiven(flags), /--invalid-packets=drop .* --backend=auto/);
    checkTogether(flags);
    for (const argv of [['--invalid-packets=drop'], ['--backend=iptables', '--invalid-packets=count']])
      checkGiven(flagsOf(argv));
  });

  it('names the klog flags that it ignores', () => {
    const argv = ['--logtostderr', '-alsologtostderr=true', '--vmodule', 'x=1', '--log-dir=/tmp'];
    const { ignored } = parseArgs(argv);
    assert.deepEqual(ignored, ['logtostderr', 'alsologtostderr', 'vmodule', 'log-dir']);
  });

  it('collects the values of a flag that may be given several times, by each of its names', () => {
    const { flagTexts } = parseArgs(['diff', '-f', 'a', '--filename=b=c', '-filename', '-', '-f=d', '-R']);
    const { filename, recursive } = flagValues(INPUT_FLAGS, flagTexts);
    assert.deepEqual([filename, recursive], [['a', 'b=c', '-', 'd'], true]);
  });

  it('has no letter twice, and none that is a flag by itself', () => {
    const tables = [FLAGS, ...Object.values(COMMANDS).map(({ own }) => own)];
    const letters = new Map(
      tables.flatMap((table) => Object.entries(table).map(([name, { short }]) => [short, name])),
    );
    for (const table of tables)
      for (const [name, { short }] of Object.entries(table)) {
        assert.equal(letters.has(name), false, name);
        if (short !== undefined) assert.equal(letters.get(short), name);
      }
  });

  it('takes a lone dash for an operand, and operands on either side of flags', () => {
    const { command, operands } = parseArgs(['--strict', 'check', 'a', '--output', 'json', '-']);
    assert.deepEqual([command, operands], ['check', ['a', '-']]);
  });

  for (const name of Object.keys(COMMANDS)) {
    it(`lets the flags of the daemon stand behind ${name}`, () => {
      const { operands } = COMMANDS[name] ?? {};
      const words = /^[^[]/.test(operands ?? '') ? ['x'] : [];
      const flags = ['--cleanup-on-exit', '--to-ports=1-2', '--metrics-bind-address', ':1', '--v=3'];
      assert.equal(parseArgs([name, ...words, ...flags]).command, name);
    });
  }

  it('has flags of one name take a value in all commands, or in none', () => {
    const arities = new Map<string, Set<boolean>>();
    for (const table of [FLAGS, ...Object.values(COMMANDS).map(({ own }) => own)]) {
      for (const [flag, { kind }] of Object.entries(table))
        arities.set(flag, (arities.get(flag) ?? new Set()).add(kind.placeholder === ''));
    }
    for (const [flag, kinds] of arities) assert.equal(kinds.size, 1, flag);
  });

  for (const [line, expected] of [
    ['', true],
    ['run --v=x', true],
    ['--cidr-limt 5', true],
    ['chekc', true],
    ['--v=x check', false],
    ['check', false],
    ['render', false],
  ] as const) {
    it(`says whether the command keeps running: ip-masq-agent ${line}`, () =>
      assert.equal(keepsRunning(line.split(' ').filter(Boolean)), expected));
  }
});

function flagsOf(argv: readonly string[]) {
  return flagValues(FLAGS, parseArgs(argv).flagTexts);
}
