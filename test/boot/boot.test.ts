import assert from 'node:assert/strict';
import { appendFile, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BINARY } from '../lab/binary.ts';
import { run, succeed } from '../lab/run.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../lab/volume.ts';
import { DATAPLANES, NFTABLES } from '../packets/support.ts';

const ROOT = join(import.meta.dirname, '../..');
const UNIT = 'ip-masq-agent-boot.service';
const STATE = '/var/lib/ip-masq-agent';

const RULES = `for family in ip ip6; do nft --stateless list table $family ip-masq-agent; done
for tool in iptables-nft ip6tables-nft iptables-legacy ip6tables-legacy; do $tool -t nat -S | grep IP-MASQ; done
`;

const unit = (place: string, start: string) => `[Unit]
${place}
[Service]
ExecStart=${start}
[Install]
WantedBy=multi-user.target
`;

/** What starts pods, as far as its unit says when: it notes the rules that it finds. */
const starter = (name: string, place: string) =>
  unit(place, `sh -c '. /rules >/seen/${name} 2>/dev/null; exec sleep infinity'`);

/** A firewall of which the boot unit does not know the name. */
const FIREWALL = unit(
  'DefaultDependencies=no\nWants=network-pre.target\nBefore=network-pre.target',
  "sh -c 'sleep 2; nft flush ruleset'\nType=oneshot",
);

/** Looks at the machine once it has booted. What firewalld removes goes a moment after it counts as started. */
const PROBE = `while systemctl list-jobs --no-legend | grep -q .; do sleep 0.1; done
sleep 1
systemctl is-system-running >/seen/system
systemctl show --value -p ActiveState ${UNIT} >/seen/unit
journalctl -b -o cat --no-pager -u ${UNIT} >/seen/log
. /rules >/seen/end
nft monitor >/seen/events & monitor=$!
sleep 0.5
systemctl restart ${UNIT}
[ ! -e /agent ] || sh /agent >/seen/agent 2>&1
sleep 0.2
kill $monitor
. /rules >/seen/after
systemctl poweroff --no-block --force
`;

/** systemd-nspawn takes the version of cgroups from what is mounted there. */
const NSPAWN = `umount --recursive /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec systemd-nspawn --quiet --boot --register=no --keep-unit --private-network --console=pipe "$@"`;

const FILES: Readonly<Record<string, string>> = {
  '/rules': RULES,
  '/probe': PROBE,
  '/etc/systemd/system/probe.service': unit('After=multi-user.target', 'sh /probe'),
  '/etc/systemd/system/containerd.service': starter('containerd', 'After=network.target local-fs.target'),
  '/etc/systemd/system/kubelet.service': starter('kubelet', 'After=network-online.target'),
  '/etc/systemd/system/firewall.service': FIREWALL,
  '/opt/ip-masq-a': 'nonMasqueradeCIDRs: [203.0.113.0/24, "fd00::/8"]\n',
};

let machine: TemporaryDirectory;
/** For programs of both this machine and that one. */
const ENVIRONMENT = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };
const at = (path: string) => join(machine.path, path);
const inside = (...command: string[]) =>
  succeed(run({ file: 'chroot', args: [machine.path, ...command] }, ENVIRONMENT));

/** Boots the machine, and shuts it down. */
async function boot() {
  await rm(at('seen'), { recursive: true, force: true });
  await mkdir(at('seen'));
  const nspawn = ['-ec', NSPAWN, 'sh', `--directory=${machine.path}`, `--bind-ro=${ROOT}`];
  const args = ['--mount', '--propagation', 'private', 'sh', ...nspawn];
  await succeed(run({ file: 'unshare', args }, ENVIRONMENT, { timeoutMs: 90_000 }));
  return async (what: string) => (await readFile(at(`seen/${what}`), 'utf8')).trim();
}

/** Has the agent write its rules and its state in a machine that has neither. Whenever it boots, it does so again at the end. */
async function install(flags: readonly string[]) {
  await rm(at(STATE), { recursive: true, force: true });
  await mkdir(at(STATE), { mode: 0o755 });
  const always = `--once --config-dir=/opt --state-dir=${STATE} --enable-ipv6 --termination-log=/none`;
  await writeFile(at('agent'), `${BINARY} ${always} ${flags.join(' ')}; echo "exit code $?"`);
  return await boot();
}

describe('a machine with the boot unit', () => {
  before(
    async () => {
      machine = await temporaryDirectory();
      const packages = 'systemd-sysv,dbus,nftables,iptables,firewalld';
      const args = ['--variant=minbase', `--include=${packages}`, 'bookworm', machine.path];
      await succeed(run({ file: 'mmdebstrap', args }, ENVIRONMENT, { timeoutMs: 280_000 }));
      for (const [path, text] of Object.entries(FILES)) await writeFile(at(path), text);
      await inside('systemd-machine-id-setup');
      await inside('systemctl', 'disable', 'firewalld');
      await inside('systemctl', 'enable', 'containerd', 'kubelet', 'probe');
      await cp(join(ROOT, 'examples/systemd'), at('root'), { recursive: true });
      const commands = (await readFile(at(`root/${UNIT}`), 'utf8')).match(/(?<=^# {3}).*/gm) ?? [];
      await inside('sh', '-ec', `cd /root\n${commands.join('\n')}`);
    },
    { timeout: 300_000 },
  );
  after(() => machine[Symbol.asyncDispose]());

  for (const { name, flags } of DATAPLANES)
    it(`has the rules before what starts pods, and nobody writes them again: ${name}`, async () => {
      const first = await install(flags);
      assert.deepEqual([await first('kubelet'), await first('unit')], ['', 'inactive']);
      assert.match(await first('agent'), /exit code 0/);
      const rules = await first('after');
      assert.match(rules, /203\.0\.113\.0/);
      const second = await boot();
      for (const when of ['containerd', 'kubelet', 'end', 'after']) assert.equal(await second(when), rules);
      assert.deepEqual([await second('system'), await second('unit')], ['running', 'active']);
      assert.match(await second('agent'), /exit code 0/);
      assert.equal(await second('events'), '');
    });

  it('has no rules of a file that the agent has not written', async () => {
    await install(NFTABLES.flags);
    await appendFile(at(join(STATE, '..data/boot.nft')), 'include "/etc/passwd"\n');
    const seen = await boot();
    assert.match(await seen('log'), /has lines that the agent does not write; no rules are written/);
    assert.deepEqual([await seen('end'), await seen('system')], ['', 'running']);
  });

  for (const firewall of ['nftables', 'firewalld', 'firewall'])
    it(`has the rules after ${firewall}.service`, async () => {
      await install(['--backend=iptables', '--iptables-mode=nft']);
      await inside('systemctl', 'enable', firewall);
      const seen = await boot();
      await inside('systemctl', 'disable', firewall);
      for (const when of ['kubelet', 'end']) assert.match(await seen(when), /203\.0\.113\.0\/24/);
    });

  it('has no rules once the unit is disabled', async () => {
    await install(NFTABLES.flags);
    await inside('systemctl', 'disable', UNIT);
    assert.equal(await (await boot())('end'), '');
  });
});
