/** The version and commit that the build was made from, and the Node that runs it. */
export function versionText(): string {
  // The build puts these in; run from sources there are none.
  const version = process.env['IP_MASQ_AGENT_VERSION'] ?? 'unbuilt';
  const commit = process.env['IP_MASQ_AGENT_COMMIT'] ?? 'unknown';
  return `ip-masq-agent ${version} (commit ${commit}, Node.js ${process.version})`;
}
