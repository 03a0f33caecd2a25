import { NetlinkError } from '../../netlink/error.ts';
import { DataplaneError } from '../error.ts';

/** What is in modules of its own: expressions of the agent's rules, and the type of its chain. */
const MODULES: Readonly<Record<string, string>> = {
  'chain type': 'nft_chain_nat',
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
  'use an image for this architecture on a file system without noexec, and allow netlink sockets (seccomp, SELinux), or use --backend=iptables';

type Meaning = readonly [failure: DataplaneError['failure'], remedy: string];

const BUSY: Meaning = ['busy', 'find out which other program changes rules all the time'];
const EXHAUSTED: Meaning = ['exhausted', 'raise the limits of the pod (files, memory)'];
const NO_NF_TABLES: Meaning = [
  'unsupported',
  'the kernel has no nf_tables: use a kernel that has it, or --backend=iptables',
];
const UNCLEAR: Meaning = ['refused', 'find out what the kernel refuses: dmesg, and the list of its modules'];

const BY_CODE: Readonly<Record<string, Meaning>> = {
  EBUSY: BUSY,
  EAGAIN: BUSY,
  ERESTART: BUSY,
  EMFILE: EXHAUSTED,
  ENFILE: EXHAUSTED,
  ENOMEM: EXHAUSTED,
  ENOBUFS: EXHAUSTED,
  EMSGSIZE: [
    'refused',
    'use fewer CIDRs: a change does not fit the send buffer of a netlink socket; or, if the agent runs in a user namespace, raise net.core.wmem_max on the node',
  ],
};

/** The failure of a request for nf_tables as the dataplane's. Throws every other error. */
export function dataplaneError(error: unknown): DataplaneError {
  if (error instanceof DataplaneError) return error;
  if (!(error instanceof NetlinkError)) throw error;
  const { message, code = '', at } = error;
  const module = MODULES[at?.part ?? ''];
  if (module !== undefined && UNKNOWN.includes(code))
    return new DataplaneError(
      'unsupported',
      `the kernel lacks ${module}: ${message}`,
      'use a node whose kernel has this module, or --backend=iptables',
    );
  const [failure, remedy] = meaningOf(error);
  return new DataplaneError(failure, message, remedy);
}

function meaningOf({ failure, code, at }: NetlinkError): Meaning {
  switch (failure) {
    case 'denied':
      return [
        'denied',
        'run the agent as root with the capability NET_ADMIN, and allow netlink sockets (seccomp, SELinux)',
      ];
    case 'changed':
      return ['raced', 'find out which other program changes the table'];
    case 'interrupted':
      return BUSY;
    case 'unsupported':
      // The kernel refuses a part of a change, so it has nf_tables, but not all that the rules need: there may be rules of an earlier
      // run. `unsupported`, which means that there are none, is only a kernel without nf_tables.
      if (at !== undefined)
        return [
          'refused',
          `the kernel lacks a module (${Object.values(MODULES).join(', ')}): use a node whose kernel has it, or --backend=iptables`,
        ];
      // This process has no netlink: whether the kernel has rules is unknown.
      return code === undefined || NO_SOCKET.includes(code) ? ['refused', ALLOW_NETLINK] : NO_NF_TABLES;
    case 'limit':
    case 'failed':
      // What the kernel says of a subsystem that it lacks, and cannot load as a module (nfnetlink.c).
      if (code === 'EINVAL' && at === undefined) return NO_NF_TABLES;
      return BY_CODE[code ?? ''] ?? UNCLEAR;
  }
}
