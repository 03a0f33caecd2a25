/** A virtual machine: a kernel of Debian, as it is or with less. Its programs are those of the machine that runs it. */
export interface Machine {
  /** What KERNELS names. */
  readonly name: string;
  /** For people. */
  readonly title: string;
  /** The release of Debian that the kernel is from. */
  readonly suite: string;
  /** The modules that it does not have, by the names of their files. */
  readonly without?: RegExp;
  /** For the command line of the kernel. */
  readonly parameters?: string;
  /** Another machine shows all that its kernel can do: this one, only what makes it another. */
  readonly isVariant?: true;
  /** The dataplanes that cannot work there: the agent must say so. */
  readonly lacks: readonly string[];
}

export const IPV4_ALONE = 'ipv6.disable=1';

export const MACHINES: readonly Machine[] = [
  { name: '5.10', title: '5.10', suite: 'bullseye', lacks: [] },
  { name: '6.1', title: '6.1', suite: 'bookworm', lacks: [] },
  { name: '6.12', title: '6.12', suite: 'trixie', lacks: [] },
  {
    name: '6.1-nftables',
    title: '6.1 without the modules that RHEL 10 has not: `xt_*`, `ip_tables`, `ip6_tables`',
    suite: 'bookworm',
    isVariant: true,
    without: /^(?:(?:xt|ipt|ip6t)_|ip6?_?table)/,
    lacks: ['iptables-nft', 'iptables-legacy'],
  },
  {
    name: '6.1-iptables',
    title: '6.1 without `nft_masq` and `nft_fib*`',
    suite: 'bookworm',
    isVariant: true,
    without: /^nft_(?:masq|fib)/,
    lacks: ['nftables'],
  },
  {
    name: '6.1-legacy',
    title: '6.1 without `nf_tables`',
    suite: 'bookworm',
    isVariant: true,
    without: /^nf_tables/,
    lacks: ['iptables-nft', 'nftables'],
  },
  {
    name: '6.1-nat',
    title: '6.1 without `nft_chain_nat`',
    suite: 'bookworm',
    isVariant: true,
    without: /^nft_chain_nat/,
    lacks: ['iptables-nft', 'nftables'],
  },
  {
    name: '6.1-ipv4',
    title: `6.1 with \`${IPV4_ALONE}\``,
    suite: 'bookworm',
    isVariant: true,
    parameters: IPV4_ALONE,
    lacks: [],
  },
];
