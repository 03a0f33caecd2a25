import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { receive } from '../../../lib/netlink/connection.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { type Request, writeMessage } from '../../../lib/netlink/messages.ts';

const PORT = 4711;
const REPLY = 99;
const EXPECTED = { asked: 'read it', sequence: 3, type: REPLY };

/** A message that answers, or differs from that. */
interface Answer extends Partial<Request> {
  readonly sequence?: number;
  readonly port?: number;
}

/** A socket that receives these messages, one at a time. */
function socketWith(messages: readonly Answer[]) {
  const left = [...messages];
  return {
    port: PORT,
    receive() {
      const message = left.shift();
      if (message === undefined) return undefined;
      const request = { type: REPLY, flags: 0, protocol: 0, attributes: [], ...message };
      const bytes = writeMessage(request, message.sequence ?? 3);
      bytes.writeUInt32LE(message.port ?? PORT, 12);
      return bytes;
    },
  };
}

/** NLMSG_DONE without an error. */
const DONE = { type: 3 };

describe('replies', () => {
  it('are taken until their end', async () => {
    const taken: number[] = [];
    const socket = socketWith([{}, {}, DONE, {}]);
    await receive(socket, EXPECTED, ({ type }) => taken.push(type));
    assert.deepEqual(taken, [REPLY, REPLY]);
  });

  it('are only an end if nothing else is to come', async () => {
    const change = { asked: 'change it', sequence: 3 };
    await receive(socketWith([{ type: 2 }]), change, () => {});
    const receiving = receive(socketWith([DONE]), change, () => {});
    await assert.rejects(receiving, NetlinkError);
  });

  for (const [what, messages, reason] of [
    ['another number', [{ sequence: 5 }], /number 5/],
    ['another port', [{ port: 1 }], /port 1,/],
    ['another type', [{ type: 98 }], /type 98/],
    ['nothing', [], /does not answer/],
  ] as const) {
    it(`are an error if there is ${what}`, async () => {
      const take = () => assert.fail('a reply was taken');
      const error = await receive(socketWith(messages), EXPECTED, take).catch((error: unknown) => error);
      assert.ok(error instanceof NetlinkError);
      assert.match(error.message, reason);
    });
  }

  it('let other events have their turn, however many there are', async () => {
    let turns = 0;
    const counting = setInterval(() => {
      turns += 1;
    }, 1);
    const receiveMore = () => socketWith([turns < 3 ? {} : DONE]).receive();
    await receive({ port: PORT, receive: receiveMore }, EXPECTED, () => {});
    clearInterval(counting);
  });
});

it('the native module says that it cannot be loaded', async () => {
  // A copy, which nothing else has loaded.
  const { native } = await import(`${new URL('../../../lib/netlink/native.ts?copy', import.meta.url)}`);
  const dlopen = mock.method(process, 'dlopen', () => {
    throw new Error('koffi.node: wrong ELF class');
  });
  assert.throws(native, {
    failure: 'unsupported',
    message: 'cannot load the native module: koffi.node: wrong ELF class',
  });
  dlopen.mock.restore();
});
