import type { Dataplane } from '../dataplane/dataplane.ts';
import { type RetryOptions, retrying } from './retry.ts';

/** The dataplane, whose readings wait for a busy kernel. */
export function patient(dataplane: Dataplane, options: RetryOptions): Dataplane {
  return {
    ...dataplane,
    observe: (family) => retrying(() => dataplane.observe(family), options),
    survey: (families) => retrying(() => dataplane.survey(families), options),
  };
}
