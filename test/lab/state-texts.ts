import type { LastValid } from '../../lib/agent/load.ts';
import type { ConfigFile } from '../../lib/config/config-file.ts';

/** Config files of which all say the same. */
export function configFilesOf(word: string) {
  return ['ip-masq-1', 'ip-masq-2', 'ip-masq-3'].map((name) => ({ name, text: `# ${word.repeat(5_000)}\n` }));
}

export function lastValid(configFiles: readonly ConfigFile[]): LastValid {
  return { configFiles, since: '2026-01-02T03:04:05.678Z' };
}
