/**
 * User data: what nft(8) keeps in the kernel with an object, and the kernel never reads. Parts with a type and a length, of
 * one byte each (libnftnl/udata.h).
 */

/** Types of the part with the comment. */
const COMMENT_TYPE = { table: 0, chain: 0, rule: 0, set: 7 } as const;

export type Commented = keyof typeof COMMENT_TYPE;

/** NFTNL_UDATA_SET_KEYBYTEORDER, a length, and 2 for the highest byte first, in the byte order of the machine. */
const HIGHEST_FIRST = Buffer.from('000402000000', 'hex');

/** NFTNL_UDATA_SET_ELEM_FLAGS: the end is open. Without it, nft 0.9.8 prints a range up to the last address. */
export const OPEN_END = Buffer.from('010401000000', 'hex');

export interface UserData {
  readonly comment?: string | undefined;
  /**
   * What else there is, as hexadecimal digits: among it the types of keys that nft keeps since 1.1.2, on which an older one
   * dies, and a comment without a zero at its end, on which every nft dies.
   */
  readonly extra?: string | undefined;
}

export function readUserData(kind: Commented, bytes: Buffer): UserData {
  let comment: string | undefined;
  let extra = '';
  for (let at = 0; at < bytes.length; ) {
    const [type, length = 0] = [bytes[at], bytes[at + 1]];
    const part = bytes.subarray(at + 2, at + 2 + length);
    if (type === COMMENT_TYPE[kind] && part.length === length && part.at(-1) === 0)
      comment = part.toString('utf8', 0, length - 1);
    // Keys that are addresses have no other byte order: nft keeps what the kernel tells anyway.
    else if (kind !== 'set' || !bytes.subarray(at, at + 2 + length).equals(HIGHEST_FIRST))
      extra += bytes.toString('hex', at, at + 2 + length);
    at += 2 + length;
  }
  return { ...(comment !== undefined && { comment }), ...(extra !== '' && { extra }) };
}

export function writeUserData(kind: Commented, comment: string): Buffer {
  const text = Buffer.from(`${comment}\0`);
  const parts = [Buffer.from([COMMENT_TYPE[kind], text.length]), text];
  return Buffer.concat(kind === 'set' ? [HIGHEST_FIRST, ...parts] : parts);
}
