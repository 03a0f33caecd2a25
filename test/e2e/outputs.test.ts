import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import schema from '../../schemas/ip-masq-outputs.schema.json' with { type: 'json' };
import { BINARY, createNode, type NodeLab } from './support.ts';

type Output = keyof typeof OUTPUTS | 'status';

/** Command lines of each command with JSON output, that together print every field. */
const OUTPUTS = {
  check: [
    'check',
    'check invalid ip-masq-ok config',
    'check nowhere',
    'check --config-dir=empty',
    'check --expect expected',
    'check -f ip-masq-ok --strict',
    'check agent.yaml',
  ],
  explain: [
    'explain 10.0.0.0/7',
    'explain --enable-ipv6 10.1.2.3 8.8.8.8 fd00::1 169.254.0.1 fe80::1',
    'explain fd00::1',
    'explain --config-dir=empty 10.0.0.1',
    'explain --live --config-dir=invalid 10.1.2.3',
    'explain --live 10.1.2.3 127.0.0.1 8.8.8.8 9.9.9.9 10.96.0.10',
    'explain --live --from=10.244.1.2 8.8.8.8',
    'explain --live --backend=nftables 8.8.8.8',
  ],
  doctor: ['doctor', 'doctor --config-dir=nowhere', 'doctor --enable-ipv6 --config-dir=empty'],
  ports: ['ports --to-ports=1-65535'],
} as const;

/** The schema, with all that it does not describe forbidden: what is printed is described. */
const closed: typeof schema = JSON.parse(JSON.stringify(schema), (_, value: unknown) =>
  typeof value === 'object' && value !== null && 'properties' in value && 'required' in value
    ? { ...value, additionalProperties: false }
    : value,
);

describe('the JSON output fits its schema:', () => {
  let node: NodeLab;
  const printed = new Map<Output, unknown[]>();
  const ajv = new Ajv2020({ allErrors: true, strict: true, strictRequired: false, allowUnionTypes: true });
  ajv.addSchema(closed);

  before(async () => {
    node = await createNode();
    await node.box.run('mkdir', [join(node.dir, 'empty')]);
    await writeFile(
      join(node.configDir, 'ip-masq-a'),
      'nonMasqueradeCIDRs: [10.0.0.0/8, 10.1.0.0/16]\nmasqLinkLocal: true\nresyncInterval: 60s\nmasqueradeAddresses: [{destination: 9.0.0.0/8, address: 198.51.100.0/24}]\n',
    );
    await node.box.run('mkdir', [join(node.dir, 'invalid')]);
    await writeFile(join(node.dir, 'invalid/ip-masq-a'), 'nonMasqueradeCIDRs: [10.0.0.1/8]\n');
    await writeFile(join(node.dir, 'expected'), '--must-not-masquerade=8.8.8.8/32\n');
    await writeFile(join(node.dir, 'ip-masq-ok'), 'masqueradeCIDRs: [10.0.0.0/8]\n');
    const containers = [{ name: 'ip-masq-agent', image: 'x', args: ['--strict'] }];
    const daemonSet = {
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      spec: { template: { spec: { containers } } },
    };
    const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'x' }, data: { x: '' } };
    await writeFile(
      join(node.dir, 'agent.yaml'),
      `${JSON.stringify(daemonSet)}\n---\n${JSON.stringify(configMap)}`,
    );
    await node.box.run('ip', 'address add 198.51.100.7/32 dev lo'.split(' '));
    await node.agent('--once');
    await node.iptables('-I', 'POSTROUTING', '-d', '127.0.0.1', '-j', 'ACCEPT');
    await node.iptables('-A', 'POSTROUTING', '-s', '172.17.0.0/16', '-j', 'MASQUERADE');
    await node.box.run('ip', ['link', 'add', 'cilium_host', 'type', 'veth']);
    await node.iptables(...'-A OUTPUT -d 10.96.0.10 -j DNAT --to-destination 203.0.113.9'.split(' '));
    // Connections that leave the node, as far as its routes say.
    await node.box.run('ip', 'route add 203.0.113.9 dev lo'.split(' '));
    await node.box.run('ip', 'route add 10.96.0.10 dev lo'.split(' '));
    const to = '198.51.100.8:40001-40002';
    await node.iptables(...`-I POSTROUTING -p udp -d 203.0.113.9 -j SNAT --to-source ${to}`.split(' '));
    // A busy machine may take longer for all commands than the half minute for which the kernel remembers such a connection.
    const timeout = '/proc/sys/net/netfilter/nf_conntrack_udp_timeout';
    assert.equal((await node.box.run('tee', [timeout], { input: '3600' })).code, 0);
    await node.box.run('bash', ['-c', 'echo > /dev/udp/203.0.113.9/9; echo > /dev/udp/10.96.0.10/9']);
  });
  after(() => node[Symbol.asyncDispose]());

  const fits = async (output: Output, command: string) => {
    const words = ['-C', node.dir, BINARY, '--config-dir=config', ...command.split(' '), '-o', 'json'];
    const { code, stdout, stderr } = await node.box.run('env', words);
    const value: unknown = JSON.parse(stdout || assert.fail(stderr));
    const validate = ajv.getSchema(`${schema.$id}#/$defs/${output}`) ?? assert.fail(output);
    assert.equal(validate(value), true, JSON.stringify(validate.errors, null, 1));
    assert.equal(JSON.parse(stdout).ok, code === 0);
    printed.set(output, [...(printed.get(output) ?? []), value]);
  };

  for (const [output, commands] of Object.entries(OUTPUTS) as [Output, readonly string[]][])
    for (const command of commands) it(command, () => fits(output, command));

  it('status, with a valid config, one that is pending, and an invalid one', async () => {
    const other = join(node.configDir, 'ip-masq-b');
    await writeFile(other, 'masqLinkLocal: true\n');
    await node.agent('cleanup');
    const agent = node.start('--on-invalid-config=keep', '--resync-interval=1h', '--rollout-window=576h');
    await agent.logged(/"reason":"start"/);
    await rm(other);
    await agent.logged(/ip-masq-b is gone/);
    await fits('status', 'status');
    await writeFile(join(node.configDir, 'ip-masq-c'), 'nonMasqueradeCIDRs: [11.0.0.0/8]\n');
    await agent.logged(/is pending/);
    await fits('status', 'status');
    await writeFile(join(node.configDir, 'ip-masq-a'), 'nonMasqueradeCIDRs: [10.0.0.1/8]\n');
    await agent.logged(/stays in use/);
    await fits('status', 'status');
    await agent.stop();
  });

  it('each field of it was printed', () => {
    const text = JSON.stringify([...printed.values()]);
    // fleet.test.ts prints those of fleet.
    const { fleet: _, ...others } = schema.$defs;
    for (const name of fieldsOf(others)) assert.ok(text.includes(`"${name}":`), name);
  });
});

/** The names of all fields that a part of the schema describes. */
function fieldsOf(part: unknown): readonly string[] {
  if (typeof part !== 'object' || part === null) return [];
  const own = 'properties' in part ? Object.keys(part.properties ?? {}) : [];
  return [...own, ...Object.values(part).flatMap(fieldsOf)];
}
