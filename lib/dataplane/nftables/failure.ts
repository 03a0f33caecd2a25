import { NetlinkError } from '../../netlink/error.ts';
import { DataplaneError } from '../error.ts';

/** Expressions of the agent's rules that are in modules of their own. */
const MODULES: Readonly<Record<string, string>> = {
  ct: 'nft_ct',
  fib: 'nft_fib_ipv4 (for IPv6, nft_fib_ipv6)',
  masq: 'nft_masq',
  nat: 'nft_nat',
  numgen: 'nft_numgen',
};

/** What the kernel says of a part that it does not know, and cannot load as a module. */
const UNKNOWN = ['ENOENT', 'ENOTSUP'];

/** What a container's runtime says of a netlink socket that it does not let the process have. */
const NO_SOCKET = ['EAFNOSUPPORT', 'ENOSYS'];

/** What to do if this process has no netlink socket. */
export const ALLOW_NETLINK =
  'use an image for this architecture, without noexec, allow netlink sockets (seccomp, SELinux), or use --backend=iptables';

/** The failure of a request for nf_tables as the dataplane's. Throws every other error. */
export function dataplaneError(error: unknown): DataplaneError {
  if (error instanceof DataplaneError) return error;
  if (!(error instanceof NetlinkError)) throw error;
  const { failure, message, code, at } = error;
  const module = at?.expression === undefined ? undefined : MODULES[at.expression];
  if (module !== undefined && UNKNOWN.includes(code ?? ''))
    return new DataplaneError(
      'unsupported',
      `the kernel lacks ${module}: ${message}`,
      'load it on the node (modprobe), or use --backend=iptables',
    );
  switch (failure) {
    case 'denied':
      return new DataplaneError(
        'denied',
        message,
        'run the agent as root with the capability NET_ADMIN, and allow netlink sockets (seccomp, SELinux)',
      );
    case 'changed':
      return new DataplaneError('raced', message, 'find out which other program changes the table');
    case 'interrupted':
      return new DataplaneError('busy', message, 'find out which other program changes rules all the time');
    case 'unsupported':
      // The kernel has nf_tables, but not all that the rules need.
      if (at !== undefined)
        return new DataplaneError(
          'refused',
          message,
          `the kernel lacks a module (${Object.values(MODULES).join(', ')}): load it, or use --backend=iptables`,
        );
      // This process has no netlink: whether the kernel has rules is unknown.
      if (code === undefined || NO_SOCKET.includes(code))
        return new DataplaneError('refused', message, ALLOW_NETLINK);
      return noNfTables(message);
    case 'limit':
    case 'failed':
      return failed(error);
  }
}

function failed({ message, code, at }: NetlinkError): DataplaneError {
  switch (code) {
    case 'EINVAL':
      if (at !== undefined) break;
      // What the kernel says of a subsystem that it lacks, and cannot load as a module (nfnetlink.c).
      return noNfTables(message);
    case 'EBUSY':
    case 'EAGAIN':
    case 'ERESTART':
      return new DataplaneError('busy', message, 'find out which other program changes rules all the time');
    case 'EMFILE':
    case 'ENFILE':
    case 'ENOMEM':
      return new DataplaneError('exhausted', message, 'raise the limits of the pod (files, memory)');
    case 'EMSGSIZE':
    case 'ENOBUFS':
      return new DataplaneError(
        'refused',
        message,
        'a user namespace may not raise the netlink buffer: raise net.core.wmem_max, or run as real root',
      );
  }
  const remedy = 'find out what the kernel refuses: dmesg, and the list of its modules';
  return new DataplaneError('refused', message, remedy);
}

/** The error for a chain that the kernel cannot add to a table that is there. */
export function lacksChainType(message: string): DataplaneError {
  const remedy = 'load it on the node (modprobe), or use --iptables-mode=legacy';
  return new DataplaneError('unsupported', `the kernel lacks nft_chain_nat: ${message}`, remedy);
}

function noNfTables(message: string): DataplaneError {
  const remedy = 'the kernel has no nf_tables: load it (modprobe), or use --backend=iptables';
  return new DataplaneError('unsupported', message, remedy);
}
