import { getSystemErrorName } from 'node:util';

/**
 * Kinds of failures of a netlink request:
 *
 * - `changed`: something that is to be made is there, or something that is to be deleted is not; reading again helps.
 * - `interrupted`: a set changed while its elements were read; asking again helps.
 * - `limit`: the kernel has more to tell than may be read, as the message says.
 * - `denied`: this process lacks a permission.
 * - `unsupported`: this kernel or container has no such socket or request, or the native module cannot be loaded.
 * - `failed`: anything else, as the message says.
 */
export type NetlinkFailure = 'changed' | 'interrupted' | 'limit' | 'denied' | 'unsupported' | 'failed';

/** What the kernel refuses of a change: the index of a request, and where in its message, if the kernel says that. */
export interface RefusedPart {
  readonly request: number;
  readonly offset: number | undefined;
  /** The name of the expression of a rule that is refused, or `chain type`; undefined if it is unknown. */
  readonly part?: string | undefined;
}

/** A netlink request failed. A failed change changes nothing. */
export class NetlinkError extends Error {
  readonly failure: NetlinkFailure;
  /** The name of the kernel's error, such as `EEXIST`; undefined if the kernel reported none. */
  readonly code: string | undefined;
  /** Undefined if it is unknown, or the request is no change. */
  readonly at: RefusedPart | undefined;

  constructor(failure: NetlinkFailure, message: string, code?: string, at?: RefusedPart) {
    super(message);
    this.failure = failure;
    this.code = code;
    this.at = at;
  }
}

const FAILURES: Readonly<Record<string, NetlinkFailure>> = {
  EEXIST: 'changed',
  ENOENT: 'changed',
  ENOTEMPTY: 'changed',
  EINTR: 'interrupted',
  EPERM: 'denied',
  EACCES: 'denied',
  EAFNOSUPPORT: 'unsupported',
  EPROTONOSUPPORT: 'unsupported',
  ENOSYS: 'unsupported',
  // Node's name for EOPNOTSUPP.
  ENOTSUP: 'unsupported',
};

/** Node.js has no name for it: the kernel does not tell it to programs, but for nf_tables. */
const ERESTART = 85;

/** The kernel's error as a value. What was asked is in words, as in `list set ip t s`. */
export function kernelError(errno: number, asked: string, at?: RefusedPart): NetlinkError {
  const code = errno === ERESTART ? 'ERESTART' : errno > 0 ? getSystemErrorName(-errno) : `${errno}`;
  return new NetlinkError(FAILURES[code] ?? 'failed', `cannot ${asked}: ${code}`, code, at);
}

export function interrupted(asked: string): NetlinkError {
  return new NetlinkError('interrupted', `cannot ${asked}: nf_tables changed meanwhile`, 'EINTR');
}

export function malformed(what: string): NetlinkError {
  return new NetlinkError('failed', `the kernel sent a netlink message that is not understood: ${what}`);
}
