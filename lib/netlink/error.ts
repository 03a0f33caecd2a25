import { getSystemErrorName } from 'node:util';

/**
 * Kinds of failures of a netlink request:
 *
 * - `changed`: something that is to be made is there, or something that is to be deleted is not; looking again helps.
 * - `interrupted`: rules of this network namespace changed during a dump; asking again helps.
 * - `busy`: the kernel has no memory or no time; asking again helps.
 * - `denied`: this process lacks a permission.
 * - `unsupported`: this kernel or container has no such socket or request, or the native module cannot be loaded.
 * - `too large`: the request does not fit the send buffer, or the reply is above the limit.
 * - `timeout`: the kernel did not answer.
 * - `malformed`: the kernel said something that this code does not understand.
 * - `refused`: the kernel refused for another reason.
 */
export type NetlinkFailure =
  | 'changed'
  | 'interrupted'
  | 'busy'
  | 'denied'
  | 'unsupported'
  | 'too large'
  | 'timeout'
  | 'malformed'
  | 'refused';

/** A netlink request failed. A failed change changes nothing. */
export class NetlinkError extends Error {
  readonly failure: NetlinkFailure;
  /** The name of the kernel's error, such as `EEXIST`; undefined if the kernel reported none. */
  readonly code: string | undefined;

  constructor(failure: NetlinkFailure, message: string, code?: string) {
    super(message);
    this.failure = failure;
    this.code = code;
  }
}

const FAILURES: Readonly<Record<string, NetlinkFailure>> = {
  EEXIST: 'changed',
  ENOENT: 'changed',
  ENOTEMPTY: 'changed',
  EINTR: 'interrupted',
  EAGAIN: 'busy',
  EBUSY: 'busy',
  ENOBUFS: 'busy',
  ENOMEM: 'busy',
  EPERM: 'denied',
  EACCES: 'denied',
  EAFNOSUPPORT: 'unsupported',
  EPROTONOSUPPORT: 'unsupported',
  ESOCKTNOSUPPORT: 'unsupported',
  EOPNOTSUPP: 'unsupported',
  ENOSYS: 'unsupported',
  EMSGSIZE: 'too large',
};

/**
 * The kernel's error as a value.
 *
 * @param asked what was asked, as in `add elements to ip t s`
 * @param said what the kernel adds in words
 */
export function kernelError(errno: number, asked: string, said = ''): NetlinkError {
  const code = errno > 0 ? getSystemErrorName(-errno) : `${errno}`;
  return new NetlinkError(
    FAILURES[code] ?? 'refused',
    `cannot ${asked}: ${code}${said && `, ${said}`}`,
    code,
  );
}

/** Rules changed during a dump. */
export function interrupted(asked: string): NetlinkError {
  return new NetlinkError('interrupted', `cannot ${asked}: nf_tables changed meanwhile`, 'EINTR');
}

/** A message that this code does not understand. */
export function malformed(what: string): NetlinkError {
  return new NetlinkError('malformed', `the kernel sent a netlink message that is not understood: ${what}`);
}
