import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { Writer } from '../../../lib/netlink/attributes.ts';
import { Connection, receive } from '../../../lib/netlink/connection.ts';
import { NetlinkError } from '../../../lib/netlink/error.ts';
import { type Header, writeMessage } from '../../../lib/netlink/messages.ts';

const PORT = 4711;
const EXPECTED = { asked: 'read it', first: 3, last: 4 };

/** A socket that receives these messages, one at a time; undefined is nothing at that moment. */
function socketWith(messages: readonly (Partial<Header & { port: number }> | undefined)[]) {
  const left = [...messages];
  let waits = 0;
  return {
    port: PORT,
    get waits() {
      return waits;
    },
    receive() {
      const message = left.shift();
      if (message === undefined) return undefined;
      const writer = new Writer();
      writeMessage(writer, { type: 99, flags: 0, sequence: 3, protocol: 0, ...message });
      writer.bytes.writeUInt32LE(message.port ?? PORT, 12);
      return { buffer: writer.bytes, from: 0, to: writer.bytes.length };
    },
    async readable() {
      waits += 1;
    },
  };
}

describe('replies', () => {
  it('are taken until the last one, and waited for', async () => {
    const socket = socketWith([{ sequence: 3 }, undefined, { type: 1 }, { sequence: 4 }]);
    const taken: number[] = [];
    await receive(socket, EXPECTED, ({ sequence }) => taken.push(sequence) === 2);
    assert.deepEqual([taken, socket.waits], [[3, 4], 1]);
  });

  for (const [what, message, failure] of [
    ['another number', { sequence: 5 }, 'malformed'],
    ['another port', { port: 1 }, 'malformed'],
    ['a report of lost messages', { type: 4 }, 'busy'],
    ['nothing, even after the wait', undefined, 'timeout'],
  ] as const) {
    it(`are an error if there is ${what}`, async () => {
      const take = () => assert.fail('a reply was taken');
      const error = await receive(socketWith([message]), EXPECTED, take).catch((error: unknown) => error);
      assert.ok(error instanceof NetlinkError);
      assert.equal(error.failure, failure);
    });
  }

  it('let other events have their turn, however many there are', async () => {
    const socket = { ...socketWith([]), receive: () => socketWith([{}]).receive() };
    let turns = 0;
    const counting = setInterval(() => {
      turns += 1;
    }, 1);
    await receive(socket, EXPECTED, () => turns >= 3);
    clearInterval(counting);
  });
});

it('a connection says that the native module cannot be loaded', () => {
  const dlopen = mock.method(process, 'dlopen', () => {
    throw new Error('koffi.node: wrong ELF class');
  });
  assert.throws(() => new Connection(), {
    failure: 'unsupported',
    message: 'cannot load the module for netlink sockets: koffi.node: wrong ELF class',
  });
  dlopen.mock.restore();
});
