import { setImmediate } from 'node:timers/promises';

/** Work in steps, of which none takes long. Each `yield` ends a step, and lets the event loop answer probes before the next one. */
export type Steps<Result> = Generator<void, Result>;

/** Takes all steps at once. */
export function takeSteps<Result>(steps: Steps<Result>): Result {
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

/** Takes the steps one by one, so that the event loop can answer probes between them. */
export async function takeStepsYielding<Result>(steps: Steps<Result>): Promise<Result> {
  let step = steps.next();
  while (!step.done) {
    await setImmediate();
    step = steps.next();
  }
  return step.value;
}
