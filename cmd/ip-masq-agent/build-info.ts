/** What was built, and what runs it. */
export interface BuildInfo {
  readonly version: string;
  /** The git commit that the build was made from. */
  readonly commit: string;
  readonly node: string;
}

export function buildInfo(): BuildInfo {
  return {
    // The build puts these in; run from sources there are none.
    version: process.env['IP_MASQ_AGENT_VERSION'] ?? 'unbuilt',
    commit: process.env['IP_MASQ_AGENT_COMMIT'] ?? 'unknown',
    node: process.version,
  };
}

/** In one line. */
export function versionText(): string {
  const { version, commit, node } = buildInfo();
  return `ip-masq-agent ${version} (commit ${commit}, Node.js ${node})`;
}
