/** What was built, and what runs it. */
export interface BuildInfo {
  readonly version: string;
  /** The git commit that the build was made from. */
  readonly commit: string;
  readonly node: string;
}

/** What the build has put in; placeholders where the sources run without one. */
export function buildInfo(): BuildInfo {
  return {
    // The build puts these in; run from sources there are none.
    version: process.env['IP_MASQ_AGENT_VERSION'] ?? 'unbuilt',
    commit: process.env['IP_MASQ_AGENT_COMMIT'] ?? 'unknown',
    node: process.version,
  };
}

/**
 * In one line.
 *
 * @param digits of the commit; all where absent
 */
export function versionText(digits?: number): string {
  const { version, commit, node } = buildInfo();
  return `ip-masq-agent ${version} (commit ${commit.slice(0, digits)}, Node.js ${node})`;
}
