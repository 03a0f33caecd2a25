import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { keptPath } from '../../../build/image/contents.ts';

/** Paths as packages of Debian 12 and 13 have them, and where they are in the image. */
const KEPT: Readonly<Record<string, string>> = {
  '/sbin/iptables-nft': '/usr/sbin/iptables-nft',
  '/usr/sbin/ip6tables-legacy-restore': '/usr/sbin/ip6tables-legacy-restore',
  '/usr/sbin/xtables-nft-multi': '/usr/sbin/xtables-nft-multi',
  '/usr/sbin/nft': '/usr/sbin/nft',
  '/lib/x86_64-linux-gnu/libc.so.6': '/usr/lib/x86_64-linux-gnu/libc.so.6',
  '/usr/lib/aarch64-linux-gnu/libstdc++.so.6.0.30': '/usr/lib/aarch64-linux-gnu/libstdc++.so.6.0.30',
  '/lib64/ld-linux-x86-64.so.2': '/usr/lib64/ld-linux-x86-64.so.2',
  '/lib/ld-linux-aarch64.so.1': '/usr/lib/ld-linux-aarch64.so.1',
  '/usr/lib/x86_64-linux-gnu/xtables/libxt_addrtype.so':
    '/usr/lib/x86_64-linux-gnu/xtables/libxt_addrtype.so',
  '/usr/lib/x86_64-linux-gnu/xtables/libip6t_MASQUERADE.so':
    '/usr/lib/x86_64-linux-gnu/xtables/libip6t_MASQUERADE.so',
  '/etc/protocols': '/etc/protocols',
};

const LEFT_OUT = [
  '/',
  '/usr/sbin/iptables-apply',
  '/usr/sbin/ebtables-nft',
  '/usr/sbin/nfnl_osf',
  '/usr/lib/x86_64-linux-gnu/gconv/UTF-16.so',
  '/usr/lib/x86_64-linux-gnu/xtables/libebt_ip.so',
  '/usr/share/man/man8/nft.8.gz',
  '/usr/share/gdb/auto-load/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30-gdb.py',
  '/etc/nftables.conf',
  '/etc/ld.so.conf.d/x86_64-linux-gnu.conf',
];

describe('of a package of Debian the image', () => {
  for (const [path, kept] of Object.entries(KEPT))
    it(`has ${path} at ${kept}`, () => assert.equal(keptPath(path), kept));
  for (const path of LEFT_OUT) it(`leaves out ${path}`, () => assert.equal(keptPath(path), undefined));
});
