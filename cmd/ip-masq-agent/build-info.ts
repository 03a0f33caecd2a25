import type { Build } from '../../lib/status/status-json.ts';

/** The values that the build sets; placeholders if the sources run without a build. */
export function buildInfo(): Build {
  return {
    version: process.env['IP_MASQ_AGENT_VERSION'] ?? 'unbuilt',
    commit: process.env['IP_MASQ_AGENT_COMMIT'] ?? 'unknown',
    nodejs: process.version,
  };
}

/** Name, version, commit and Node.js version in one line. */
export function versionText(): string {
  const { version, commit, nodejs } = buildInfo();
  return `ip-masq-agent ${version} (commit ${commit}, Node.js ${nodejs})`;
}
