/** The build, and the Node.js that runs it. */
interface BuildInfo {
  readonly version: string;
  /** The git commit that the build was made from. */
  readonly commit: string;
  readonly node: string;
}

/** The values that the build sets; placeholders if the sources run without a build. */
export function buildInfo(): BuildInfo {
  return {
    version: process.env['IP_MASQ_AGENT_VERSION'] ?? 'unbuilt',
    commit: process.env['IP_MASQ_AGENT_COMMIT'] ?? 'unknown',
    node: process.version,
  };
}

/**
 * Name, version, commit and Node.js version in one line.
 *
 * @param digits how many digits of the commit; all if absent
 */
export function versionText(digits?: number): string {
  const { version, commit, node } = buildInfo();
  return `ip-masq-agent ${version} (commit ${commit.slice(0, digits)}, Node.js ${node})`;
}
