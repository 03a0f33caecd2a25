import { existsSync } from 'node:fs';

/** False on a kernel that was booted with `ipv6.disable=1`. Then packets of IPv6 are not to be had, and their tests fail. */
export const HAS_IPV6 = existsSync('/proc/net/if_inet6');
