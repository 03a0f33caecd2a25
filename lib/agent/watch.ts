import { watch } from 'node:fs';
import { basename } from 'node:path';
import { DATA_LINK } from '../config/read.ts';
import { isSourceName } from '../config/source.ts';

export interface WatchEvents {
  readonly onChange: () => void;
  /** The watch is lost; from now on only the resync notices changes. */
  readonly onLost: (error: Error) => void;
  /** Whether the directory is a projected volume. */
  readonly isProjected: () => boolean;
}

/** A file of a plain directory is written in steps; it is read when it has been quiet for so long. */
const QUIET_MS = 100;

/**
 * Watches the directory itself: the files' inodes go away at each swap. In a projected volume only the swap
 * of `..data` counts, and counts at once.
 */
export function watchDirectory(
  dir: string,
  { onChange, onLost, isProjected }: WatchEvents,
  signal: AbortSignal,
): void {
  let quiet: NodeJS.Timeout | undefined;
  signal.addEventListener('abort', () => clearTimeout(quiet));
  try {
    watch(dir, { signal })
      .on('change', (_, name) => {
        if (name === null || name === DATA_LINK || name === basename(dir)) {
          onChange();
        } else if (!isProjected() && isSourceName(String(name))) {
          clearTimeout(quiet);
          quiet = setTimeout(onChange, QUIET_MS);
        }
      })
      .on('error', onLost);
  } catch (error) {
    onLost(error instanceof Error ? error : new Error(String(error)));
  }
}
