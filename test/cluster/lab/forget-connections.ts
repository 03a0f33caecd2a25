/** Run as a program, it empties the connection tracking of the network that it is in. */
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { errnoIn, messagesIn, writeMessage } from '../../../lib/netlink/messages.ts';
import { NetlinkSocket } from '../../../lib/netlink/socket.ts';
import type { NodePrograms } from './local-node.ts';

/** Of linux/netfilter/nfnetlink_conntrack.h. Without a tuple, it deletes all. */
const IPCTNL_MSG_CT_DELETE = 0x0102;
const ACK = 4;

/**
 * Makes a node forget its connections. What began while it had no rules, and ended while nothing was tracked, stays for days
 * otherwise, and gives its verdict to the connection that has its ports next.
 */
export async function forgetConnections({ spawn }: NodePrograms): Promise<void> {
  const program = fileURLToPath(import.meta.url);
  const [code] = await once(spawn(process.execPath, [program], { stdio: 'inherit' }), 'exit');
  if (code !== 0) throw new Error(`the connections of a node cannot be forgotten: exit code ${code}`);
}

function forget(): void {
  const socket = new NetlinkSocket();
  const request = { type: IPCTNL_MSG_CT_DELETE, flags: ACK, protocol: 0, attributes: [] };
  socket.send(writeMessage(request, 1), 'forget all connections');
  const replies = messagesIn(socket.receive() ?? Buffer.alloc(0));
  const errnos = Array.from(replies, errnoIn);
  socket.close();
  if (errnos.join() !== '0') throw new Error(`conntrack says errno ${errnos.join() || 'nothing'}`);
}

if (import.meta.main) forget();
