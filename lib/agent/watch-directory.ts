import { existsSync, type FSWatcher, watch } from 'node:fs';
import { basename, join } from 'node:path';
import { isConfigFileName } from '../config/config-file.ts';
import { DATA_LINK } from '../config/read.ts';
import type { Notices } from '../log/notices.ts';
import { errorCode, errorMessage } from '../text/error.ts';

/** How long no file of a plain directory may change before all are read: there can be very many events, of one change each. */
const QUIET_MS = 100;

/**
 * Watches the directory itself, because kubelet replaces the files at each swap. In a projected volume only the swap of `..data`
 * is an event.
 *
 * @returns watches, unless that is done. To be called before each reading: if there can be no watch, it is lost, or another
 * directory has the name now, it tries again
 */
export function directoryWatch(
  path: string,
  onChange: () => void,
  notices: Notices,
  signal: AbortSignal,
): () => void {
  // Otherwise an event of the directory itself has no name, or the name of any directory.
  const dir = path.replace(/(?<=.)(?:\/+\.?)+$/, '');
  let current: FSWatcher | undefined;

  const warn = (error: unknown): void => notices.warn(TOPIC, [failureOf(error)]);
  const open = (): void => {
    let quiet: NodeJS.Timeout | undefined;
    const watcher = watch(dir, { signal })
      .on('change', (_, name) => {
        const isItself = name === null || name === basename(dir);
        // The directory itself was moved or removed, or a file has its name.
        if (isItself) watcher.close();
        const isFile = () => isConfigFileName(String(name)) && !existsSync(join(dir, DATA_LINK));
        if (isItself || name === DATA_LINK) onChange();
        else if (isFile()) {
          clearTimeout(quiet);
          quiet = setTimeout(onChange, QUIET_MS);
        }
      })
      .on('close', () => {
        clearTimeout(quiet);
        current = undefined;
      })
      .on('error', (error) => {
        watcher.close();
        warn(error);
      });
    current = watcher;
  };
  return () => {
    if (current !== undefined) return;
    try {
      open();
      notices.warn(TOPIC, [], 'watching the config directory again');
    } catch (error) {
      warn(error);
    }
  };
}

const TOPIC = 'watch of the config directory';

function failureOf(error: unknown): string {
  const isLimit = ['ENOSPC', 'EMFILE'].includes(errorCode(error) ?? '');
  const remedy = isLimit ? '; raise fs.inotify.max_user_watches or max_user_instances' : '';
  return `cannot watch the config directory, so changes wait for the resync: ${errorMessage(error)}${remedy}`;
}
