import { type Address, formatAddress, parseAddress } from '../cidr/address.ts';
import { type PortRange, portsText } from './ports.ts';

/** The address and ports that packets leave with, as iptables(8) and nft(8) print them: `[2001:db8::1]:1024-2047`. */
export function translationText(address: Address, ports: PortRange | undefined): string {
  const text = formatAddress(address);
  if (ports === undefined) return text;
  return `${address.family === 'IPv6' ? `[${text}]` : text}:${portsText(ports)}`;
}

/** The canonical address in such a text; undefined if it is another text, such as a range of addresses. */
export function translatedAddress(text: string): string | undefined {
  const [, bracketed, ipv4, ipv6] =
    /^(?:\[([0-9a-f:.]+)\]|([0-9.]+)|([0-9a-f:.]+))(?::[\d-]+)?$/.exec(text) ?? [];
  const address = parseAddress(bracketed ?? ipv4 ?? ipv6 ?? '');
  return address && formatAddress(address);
}
