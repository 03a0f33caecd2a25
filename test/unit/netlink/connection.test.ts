import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { Connection, receive, replyParts } from '../../../lib/netlink/connection.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { attribute, type Request, writeMessage } from '../../../lib/netlink/messages.ts';
import type { NetlinkSocket } from '../../../lib/netlink/socket.ts';

const PORT = 4711;
const REPLY = 99;
const EXPECTED = { asked: 'read it', sequence: 3, type: REPLY };

/** A message that answers, or differs from that. */
interface Answer extends Partial<Request> {
  readonly sequence?: number;
  readonly port?: number;
  readonly errno?: number;
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
      bytes.writeInt32LE(-(message.errno ?? 0), 16);
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
    await receive(replyParts(socket, EXPECTED), ({ type }) => taken.push(type));
    assert.deepEqual(taken, [REPLY, REPLY]);
  });

  it('are only an end if nothing else is to come', async () => {
    const change = { asked: 'change it', sequence: 3 };
    await receive(replyParts(socketWith([{ type: 2 }]), change), () => {});
    const receiving = receive(replyParts(socketWith([DONE]), change), () => {});
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
      const parts = replyParts(socketWith(messages), EXPECTED);
      const error = await receive(parts, take).catch((error: unknown) => error);
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
    await receive(replyParts({ port: PORT, receive: receiveMore }, EXPECTED), () => {});
    clearInterval(counting);
  });
});

describe('the answers to a batch of three requests', () => {
  const [EEXIST, ENOTSUP] = [17, 95];
  /** NLMSG_ERROR for one of them: the header of that request, then perhaps a message and an offset. */
  const answerTo = (request: number, errno = 0, ...parts: readonly Buffer[]): Answer => {
    return { type: 2, sequence: request + 1, errno, attributes: [Buffer.alloc(16), ...parts] };
  };
  const place = [attribute(1, 'no'), attribute(2, Buffer.from([44, 0, 0, 0]))];
  const end = answerTo(2);
  const refusedAt = (request: number, offset?: number) => ({ at: { request, offset } });
  for (const [what, answers, error] of [
    ['are the last one if all are carried out', [end], undefined],
    ['name what is refused', [answerTo(1, EEXIST), end], { ...refusedAt(1), failure: 'changed' }],
    ['name what is refused, if it is the last', [answerTo(2, EEXIST)], refusedAt(2)],
    [
      'name the first refused one and its part',
      [answerTo(0, ENOTSUP, ...place), answerTo(1, EEXIST), end],
      { ...refusedAt(0, 44), code: 'ENOTSUP' },
    ],
    ['are incomplete without the last one', [answerTo(0)], { message: /does not answer/ }],
    ['are of nobody for another number', [answerTo(3), end], { message: /number 4/ }],
    ['are of nobody for another port', [{ ...end, port: 1 }], { message: /port 1,/ }],
  ] as const)
    it(what, async () => {
      const socket = { ...socketWith(answers), sendChange: async () => {}, close: () => {} };
      const connection = new Connection(socket as unknown as NetlinkSocket);
      const request = { type: REPLY, flags: 0, protocol: 0, attributes: [] };
      const changing = connection.change('change it', [request, request, request]);
      await (error === undefined ? changing : assert.rejects(changing, error));
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
