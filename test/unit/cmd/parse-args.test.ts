import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { INPUT_FLAGS } from '../../../cmd/ip-masq-agent/command-flags.ts';
import { COMMANDS } from '../../../cmd/ip-masq-agent/commands.ts';
import { UsageError } from '../../../cmd/ip-masq-agent/exit.ts';
import { flagValues } from '../../../cmd/ip-masq-agent/flag-table.ts';
import { checkGiven, checkTogether, FLAGS } from '../../../cmd/ip-masq-agent/flags.ts';
import { parseArgs } from '../../../cmd/ip-masq-agent/parse-args.ts';

describe('the command line', () => {
  it('has the defaults of the table', () => {
    const { command, operands, ignored } = parseArgs([]);
    const flags = flagsOf([]);
    assert.equal(command, 'run');
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
    it(`takes the value from ${argv.join(' ')}`, () => assert.equal(flagsOf(argv).v, 4));
  }

  for (const argv of [
    ['--enable-ipv6'],
    ['-enable-ipv6'],
    ['--enable-ipv6=true'],
    ['--enable-ipv6=1'],
    ['--enable-ipv6=T'],
  ]) {
    it(`turns a boolean on with ${argv}`, () => assert.equal(flagsOf(argv)['enable-ipv6'], true));
  }

  for (const argv of [['--random-fully=false'], ['--random-fully=0'], ['--random-fully=F']]) {
    it(`turns a boolean off with ${argv}`, () => assert.equal(flagsOf(argv)['random-fully'], false));
  }

  for (const [argument, value] of [
    ['--random-fully', true],
    ['--random-fully=1', true],
    ['--random-fully=tcp', ['tcp']],
    ['--random-fully=sctp,tcp,tcp', ['tcp', 'sctp']],
  ] as const) {
    it(`reads ${argument}`, () => assert.deepEqual(flagsOf([argument])['random-fully'], value));
  }

  it('does not take the next word as the value of a boolean, as Go does not', () => {
    for (const argv of [
      ['--enable-ipv6', 'false'],
      ['check', '--enable-ipv6', 'false'],
      ['check', '-R', 'True', 'x'],
    ])
      assert.throws(
        () => parseArgs(argv),
        /takes no value behind a space, but got "\w+": write --?\S+=(?:false|True)$/,
      );
  });

  for (const [text, ms] of [
    ['60', 60_000],
    ['90s', 90_000],
    ['1m30s', 90_000],
    ['500ms', 500],
  ] as const) {
    it(`reads --resync-interval=${text} as ${ms} ms`, () =>
      assert.equal(flagsOf([`--resync-interval=${text}`])['resync-interval'], ms));
  }

  for (const [text, bytes] of [
    ['4096', 4096],
    ['0', 0],
    ['512Ki', 512 * 1024],
    ['2Mi', 2 * 1024 * 1024],
    ['1Gi', 1024 ** 3],
    ['3k', 3000],
    ['2M', 2_000_000],
  ] as const) {
    it(`reads --config-limit=${text} as ${bytes} bytes`, () =>
      assert.equal(flagsOf([`--config-limit=${text}`])['config-limit'], bytes));
  }

  it('keeps "=" in a value, and an empty value', () => {
    const flags = flagsOf(['--config-dir=/a=b', '--metrics-bind-address=']);
    assert.deepEqual([flags['config-dir'], flags['metrics-bind-address']], ['/a=b', '']);
  });

  it('takes all behind -- for operands', () => {
    assert.deepEqual(parseArgs(['check', '--', '--v=4', 'x']).operands, ['--v=4', 'x']);
  });

  it('reads port ranges', () => {
    assert.deepEqual(flagsOf(['--to-ports=80,1024-2000'])['to-ports'], [
      { first: 80, last: 80 },
      { first: 1024, last: 2000 },
    ]);
  });

  it('reads names of sources', () => {
    assert.deepEqual(flagsOf([])['require-source'], []);
    assert.deepEqual(flagsOf(['--require-source=ip-masq-a,ip-masq-b'])['require-source'], [
      'ip-masq-a',
      'ip-masq-b',
    ]);
  });

  for (const [address, ok] of [
    ['127.0.0.1:9614', true],
    ['[::1]:9614', true],
    [':9614', true],
    ['::1:9614', false],
    ['[127.0.0.1]:9614', true],
    ['[]:9614', false],
    ['127.0.0.1:65536', false],
    ['localhost:9614', false],
  ] as const) {
    it(`${ok ? 'takes' : 'rejects'} --metrics-bind-address=${address}`, () => {
      const parse = () => flagsOf([`--metrics-bind-address=${address}`]);
      if (ok) assert.equal(parse()['metrics-bind-address'], address);
      else assert.throws(parse, UsageError);
    });
  }

  for (const argument of [
    '--masq-chain=A-chain_of-29-characters-1234',
    '--masq-chain=-dash',
    '--masq-chain=a b',
    '--masq-chain=POSTROUTING',
    '--masq-chain=ACCEPT',
    '--masq-chain=KUBE-POSTROUTING',
    '--masq-chain=',
    '--enable-ipv6=yes',
    '--resync-interval=1 minute',
    '--resync-interval=0',
    '--sync-timeout',
    '--random-fully=',
    '--random-fully=icmp',
    '--random-fully=TCP',
    '--random-fully=tcp,',
    '--random-fully=tcp,false',
    '--to-ports=0-10',
    '--to-ports=20-10',
    '--to-ports=1-10,5-20',
    '--iptables-mode=nftables',
    '--backend=ipvs',
    '--cidr-limit=-1',
    '--cidr-limit-max=many',
    '--config-limit=',
    '--config-limit=-1',
    '--config-limit=2MB',
    '--config-limit=1.5Mi',
    '--accept-foreign=Docker',
    '--accept-foreign=docker,',
    '--require-source=operator',
    '--require-source=ip-masq-a,',
    '--require-source=ip-masq-a, ip-masq-b',
    '--require-source=ip-masq-a/b',
    `--require-source=ip-masq-${'x'.repeat(248)}`,
    '--must-masquerade=10.0.0.1/8',
    '--must-masquerade=8.0.0.0/8 from fd00::/8',
    '--must-masquerade=8.0.0.0/8 from 10.0.0.1/8',
    '--masq-chain=MASQ-FROM',
    '--must-masquerade=10.0.0.0/8,',
    '--must-not-masquerade=10.0.0.0/8 192.168.0.0/16',
    '--log-format=xml',
    '--config-dir=',
    '--v=loud',
  ]) {
    it(`rejects ${argument}`, () => assert.throws(() => flagsOf([argument]), UsageError));
  }

  for (const [argument, remedy] of [
    ['--masq-chain=ACCEPT', /at most 28 of/],
    ['--enable-ipv6=yes', /write true or false/],
    ['--resync-interval=1 minute', /such as 1m30s/],
    ['--random-fully=icmp', /has "icmp": write true, false, or some of tcp, udp, sctp/],
    ['--to-ports=0-10', /from 1 to 65535/],
    ['--backend=ipvs', /write auto or iptables or nftables/],
    ['--cidr-limit=-1', /whole number/],
    ['--config-limit=2MB', /with Ki, Mi, Gi, k, M or G/],
    ['--config-dir=', /not a path/],
    [
      '--must-masquerade=192.0.2.0/24,10.0.0.1/8',
      /is not a list of CIDRs: "10\.0\.0\.1\/8" is not a network address: .*write 10\.0\.0\.0\/8/,
    ],
    ['--require-source=ip-masq-a,b', /has "b", which no source can be named: .* begin with ip-masq-/],
    ['--metrics-bind-address=localhost', /127\.0\.0\.1:9614/],
  ] as const) {
    it(`says what to write instead of ${argument}`, () => assert.throws(() => flagsOf([argument]), remedy));
  }

  it('joins promises that are given several times, of which an empty one means none', () => {
    const flags = flagsOf([
      '--must-masquerade=8.0.0.0/8,9.0.0.0/8',
      '--must-masquerade=',
      '--must-masquerade=8.0.0.0/8',
    ]);
    assert.deepEqual(
      flags['must-masquerade'].map(({ prefix }) => prefix.text),
      ['8.0.0.0/8', '9.0.0.0/8'],
    );
    assert.throws(
      () => flagsOf(['--must-masquerade=8.0.0.0/8', '--must-masquerade=bad']),
      /="8\.0\.0\.0\/8,bad" /,
    );
  });

  it('takes promises about packets from some addresses, which contradict others only there', () => {
    const one = '--must-masquerade=8.0.0.0/8 from 10.244.0.0/16';
    const flags = flagsOf([one, '--must-not-masquerade=8.8.0.0/16 from 10.1.0.0/16']);
    checkTogether(flags);
    assert.equal(flags['must-masquerade'][0]?.from?.text, '10.244.0.0/16');
    assert.throws(
      () => checkTogether(flagsOf([one, '--must-not-masquerade=8.8.0.0/16 from 10.244.3.0/24'])),
      /--must-not-masquerade=8\.8\.0\.0\/16 from 10\.244\.3\.0\/24 contradicts/,
    );
    assert.throws(() => checkTogether(flagsOf([one, '--must-not-masquerade=8.8.0.0/16'])), UsageError);
  });

  for (const [argv, remedy] of [
    [['--cidr-limit=2000'], /raise --cidr-limit-max/],
    [['--scrape-bind-address=127.0.0.1:9614'], /two addresses/],
    [['--enable-ipv4=false'], /add --enable-ipv6/],
    [['--must-masquerade=fd00::/8'], /fd00::\/8 .* add --enable-ipv6/],
    [
      ['--enable-ipv4=false', '--enable-ipv6', '--must-not-masquerade=10.0.0.0/8'],
      /10\.0\.0\.0\/8 .* add --enable-ipv4/,
    ],
  ] as const)
    it(`rejects ${argv}, which contradicts another flag`, () =>
      assert.throws(() => checkTogether(flagsOf(argv)), remedy));

  it('rejects to drop in iptables if a command line asks for both, but not what an agent has found', () => {
    const flags = flagsOf(['--backend=iptables', '--invalid-packets=drop']);
    assert.throws(() => checkGiven(flags), /--invalid-packets=drop .* --backend=auto/);
    checkTogether(flags);
    for (const argv of [['--invalid-packets=drop'], ['--backend=iptables', '--invalid-packets=count']])
      checkGiven(flagsOf(argv));
  });

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

  for (const argv of [['--__proto__'], ['--constructor=1'], ['--toString'], ['---v'], ['--=x'], ['--v']]) {
    it(`rejects ${argv}`, () => {
      assert.throws(() => parseArgs(argv), UsageError);
    });
  }

  for (const [argv, message] of [
    [['chek'], /unknown command "chek": did you mean check\?/],
    [['__proto__'], /unknown command "__proto__"/],
    [['run', 'x'], /run takes no arguments, but got "x"/],
    [['diff', 'x'], /diff .*"x"/],
    [['explain'], /explain needs an argument: see explain --help/],
    [['completion'], /completion needs an argument/],
    [['completion', 'bash', 'zsh'], /completion takes one argument, but got "zsh" too/],
    [['diff', '--live'], /diff does not take --live: see diff --help/],
    [['--output=json'], /run does not take --output/],
    [['completion', 'bash', '-o', 'json'], /completion does not take --output/],
    [['explain', '8.8.8.8', '-f'], /--filename needs a value/],
    [['explain', '8.8.8.8', '-f', ''], /--filename needs a value/],
    [['check', '-ojson'], /unknown flag "--ojson"/],
  ] as const) {
    it(`rejects ${argv.join(' ')}`, () => assert.throws(() => parseArgs(argv), message));
  }

  it('collects the values of a flag that may be given several times, by each of its names', () => {
    const { texts } = parseArgs(['diff', '-f', 'a', '--filename=b=c', '-filename', '-', '-f=d', '-R']);
    const { filename, recursive } = flagValues(INPUT_FLAGS, texts);
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
      const argv = [
        name,
        ...words,
        '--cleanup-on-exit',
        '--to-ports=1-2',
        '--metrics-bind-address',
        ':1',
        '--v=3',
      ];
      assert.equal(parseArgs(argv).command, name);
    });
  }

  it('has flags of one name take a value in all commands, or in none', () => {
    const arities = new Map<string, Set<boolean>>();
    for (const table of [FLAGS, ...Object.values(COMMANDS).map(({ own }) => own)]) {
      for (const [flag, { kind }] of Object.entries(table))
        arities.set(flag, (arities.get(flag) ?? new Set()).add(kind.placeholder === ''));
    }
    assert.deepEqual(
      [...arities].filter(([, kinds]) => kinds.size > 1),
      [],
    );
  });

  it('says which flag was meant', () => {
    assert.throws(() => parseArgs(['--enable-ipv']), /did you mean --enable-ipv6\?/);
  });
});

function flagsOf(argv: readonly string[]) {
  return flagValues(FLAGS, parseArgs(argv).texts);
}
