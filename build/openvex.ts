/**
 * Says which vulnerabilities of Node.js do not affect the image, and why: what OpenVEX 0.2.0 calls a document. Run as a program it
 * prints that, for a scanner.
 */
import { REPOSITORY } from './repository.ts';

/** Parts of Node.js that no program of the image uses, and the vulnerabilities that are in these alone. ip-masq-ranges uses TLS and HTTP/2. */
const UNUSED = [
  {
    reason:
      'The agent and ip-masq-ranges do not use the permission model of Node.js: the container limits them, see SECURITY.md.',
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
