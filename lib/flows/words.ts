import { type Address, formatAddress } from '../cidr/address.ts';

/** Numbers of protocols with ports (IANA). */
export const IPPROTO = { tcp: 6, udp: 17, sctp: 132 } as const;

/** The name of a protocol with ports, or a number. */
export function protocolText(protocol: number): string {
  const known = Object.entries(IPPROTO).find(([, number]) => number === protocol);
  return known?.[0] ?? `protocol ${protocol}`;
}

export function endText(address: Address, port: number | undefined): string {
  const text = formatAddress(address);
  if (port === undefined) return text;
  return address.family === 'IPv4' ? `${text}:${port}` : `[${text}]:${port}`;
}
