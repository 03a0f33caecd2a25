import { gzipSync } from 'node:zlib';

const BLOCK = 512;

/** What ends an archive. */
export const END = gzipSync(Buffer.alloc(2 * BLOCK));

/**
 * A file as a part of a .tgz, in the format ustar of POSIX.1-1988. Parts may follow each other, because a gzip file may have
 * several members (RFC 1952).
 *
 * @param directory at most 155 bytes, empty for none
 * @param name at most 100 bytes
 */
export function packed(directory: string, name: string, text: string): Buffer {
  const content = Buffer.from(text);
  const header = Buffer.alloc(BLOCK);
  const put = (value: number, digits: number, at: number) =>
    header.write(value.toString(8).padStart(digits, '0'), at);
  header.write(name, 0, 100);
  put(0o600, 7, 100);
  put(content.length, 11, 124);
  put(Math.floor(Date.now() / 1000), 11, 136);
  header.write('ustar\x0000', 257);
  header.write(directory, 345, 155);
  // It counts its own eight bytes as spaces.
  const checksum = header.reduce((sum, byte) => sum + byte, 8 * 0x20);
  put(checksum, 6, 148);
  // Zeros fill the last block.
  return gzipSync(Buffer.concat([header, content], BLOCK * (1 + Math.ceil(content.length / BLOCK))));
}
