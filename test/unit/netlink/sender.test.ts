import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { it } from 'node:test';
import { NetlinkSocket } from '../../../lib/netlink/socket.ts';
import { IS_ROOT } from '../../lab/user.ts';

/** Sends one message to the port (AF_NETLINK, NETLINK_NETFILTER), which only root may. */
const SEND =
  'socket(my $s, 16, 3, 12); send($s, pack("LSSLL", 16, 0xa00, 0, 0, 0), 0, pack("SSLL", 16, 0, $ARGV[0], 0)) or die $!';

it('what another process of root sends to the socket does not count', { skip: !IS_ROOT }, () => {
  using socket = new NetlinkSocket();
  execFileSync('perl', ['-e', SEND, `${socket.port}`]);
  assert.equal(socket.receive()?.length, 0);
});
