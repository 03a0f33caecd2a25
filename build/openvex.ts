/**
 * Says which vulnerabilities of Node.js do not affect the agent, and why: what OpenVEX 0.2.0 calls a document. Run as a program it
 * prints that, for a scanner.
 */
import { REPOSITORY } from './repository.ts';

/** Parts of Node.js that the agent does not use, and the vulnerabilities that are in these alone. */
const UNUSED = [
  {
    reason: 'The agent has no TLS: it serves plain HTTP, and is no client of any server.',
    names: [
      ...['CVE-2026-21637', 'CVE-2026-48618', 'CVE-2026-48928', 'CVE-2026-48934'],
      ...['CVE-2026-56850', 'CVE-2026-58040'],
    ],
  },
  {
    reason: 'The agent does not load node:http2: it serves HTTP/1.1 alone.',
    names: ['CVE-2026-21714', 'CVE-2026-48619', 'CVE-2026-48937', 'CVE-2026-56846', 'CVE-2026-56848'],
  },
  {
    reason:
      'The agent does not use the permission model of Node.js: the container limits it, see SECURITY.md.',
    names: [
      ...['CVE-2026-21715', 'CVE-2026-21716', 'CVE-2026-48617', 'CVE-2026-48935'],
      ...['CVE-2026-56847', 'CVE-2026-58039', 'CVE-2026-58043'],
    ],
  },
];

/** Scanners compare it with the last part of the image's name. */
const PRODUCTS = [{ '@id': 'pkg:oci/ip-masq-agent' }];

/** @param seconds since the epoch: when the document was made */
export function vulnerabilityReport(seconds: number): string {
  const statements = UNUSED.flatMap(({ reason, names }) =>
    names.map((name) => ({
      vulnerability: { name },
      products: PRODUCTS,
      status: 'not_affected',
      justification: 'vulnerable_code_not_in_execute_path',
      impact_statement: reason,
    })),
  );
  const document = {
    '@context': 'https://openvex.dev/ns/v0.2.0',
    '@id': `https://github.com/${REPOSITORY}/openvex/${seconds}`,
    author: REPOSITORY,
    timestamp: new Date(seconds * 1000).toISOString(),
    version: 1,
    statements,
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

if (import.meta.main) process.stdout.write(vulnerabilityReport(Math.floor(Date.now() / 1000)));
